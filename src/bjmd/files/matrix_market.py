"""Matrix Market files, parsed here because SciPy's own reader ends the interpreter on some that
were cut off.
"""

from pathlib import Path

import numpy as np
import scipy.sparse

from bjmd.data.matrix import require_sound_sparse
from bjmd.errors import InputError
from bjmd.files.text_tables import open_text

KINDS = ("coordinate", "array")
FIELDS = ("real", "double", "integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read(path: Path) -> np.ndarray | scipy.sparse.csc_array:
    """The matrix: dense from an array file, sparse from a coordinate file."""
    import pandas as pd

    with open_text(path) as file:
        banner = file.readline().lower().split()
        if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
            raise InputError(
                f"{path} does not begin with %%MatrixMarket matrix; check that it was written completely"
            )
        for word, known in zip(banner[2:], (KINDS, FIELDS, SYMMETRIES), strict=True):
            if word not in known:
                raise InputError(
                    f"{path} is a Matrix Market file of kind {word!r}; known are {', '.join(known)}"
                )
        _, _, kind, field, symmetry = banner
        size = next(
            (line for line in file if line.strip() and not line.startswith("%")), ""
        ).split()
        if len(size) != (3 if kind == "coordinate" else 2) or not all(
            word.isdigit() for word in size
        ):
            raise InputError(
                f"{path} has no line with its size below its heading; check whether it was cut off"
            )
        shape = (int(size[0]), int(size[1]))
        try:
            body = pd.read_csv(
                file,
                sep=r"\s+",
                header=None,
                comment="%",
                float_precision="round_trip",
                keep_default_na=False,
                na_values=("nan", "NaN"),
            )
        except pd.errors.EmptyDataError:
            body = pd.DataFrame()
    whole = 2 if kind == "coordinate" else 0  # the first columns are places
    n_columns = whole + (field != "pattern")
    n, m = (
        # an array file has all, or the lower triangle, without its diagonal if that must be zero
        shape
    )
    in_array = {"general": n * m, "symmetric": n * (n + 1) // 2, "skew-symmetric": n * (n - 1) // 2}
    promised = int(size[2]) if kind == "coordinate" else in_array[symmetry]
    if len(body) != promised:
        raise InputError(
            f"{path} promises {promised} entries and has {len(body)}; check whether it was cut off"
        )
    kinds = [body[i].dtype.kind for i in body.columns] if promised else ["i"] * n_columns
    numbers = set(kinds[:whole]) <= set("iu") and set(kinds[whole:]) <= set("iuf")
    cut_off = kind == "coordinate" and body.isna().any(
        axis=None
    )  # a line that ends early is filled with NaN
    if len(kinds) != n_columns or not numbers or cut_off:
        raise InputError(
            f"{path} has entries that are not {n_columns} numbers; check whether it was cut off"
        )
    if kind == "array":
        return _dense(shape, symmetry, body.to_numpy(dtype=float).ravel())
    places = body.to_numpy()[:, :2].astype(np.int64).reshape(-1, 2) - 1
    outside = ((places < 0) | (places >= shape)).any(axis=1)
    if outside.any():
        row, column = places[outside][0] + 1
        raise InputError(
            f"{path} has an entry at row {row}, column {column}, but its size is {shape[0]} x {shape[1]}"
        )
    values = (
        np.ones(promised) if field == "pattern" or not promised else body[2].to_numpy(dtype=float)
    )
    if symmetry != "general":
        mirrored = places[:, 0] != places[:, 1]
        values = np.concatenate(
            [values, (-1 if symmetry == "skew-symmetric" else 1) * values[mirrored]]
        )
        places = np.concatenate([places, places[mirrored][:, ::-1]])
    matrix = scipy.sparse.coo_array((values, (places[:, 0], places[:, 1])), shape=shape)
    require_sound_sparse(matrix, str(path))
    return matrix.tocsc()


def _dense(shape: tuple[int, int], symmetry: str, values: np.ndarray) -> np.ndarray:
    """A matrix from its columns, one below the other."""
    if symmetry == "general":
        return values.reshape(shape, order="F")
    lower = np.zeros(shape)
    columns, rows = np.triu_indices(shape[0], k=int(symmetry == "skew-symmetric"))
    lower[rows, columns] = values
    return np.tril(lower) + (-1 if symmetry == "skew-symmetric" else 1) * np.tril(lower, -1).T
