"""ln of positive numbers, for all lanes at once: the C library takes them one by one.

x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and ln(1 + f) = 2 artanh(r) = 2 (r + r^3/3
+ r^5/5 + ...) with r = f / (2 + f), at most 0.172, so that ten terms are enough.  Relative error
below 1e-15.
"""

import numpy as np

from bjmd.numerics.lanes import part

_WIDTH = np.uint64(52)  # bits of the fraction of a number, below its exponent
_HALF = np.array(0.5).view(np.uint64)[()]
_LEAST = np.array(np.sqrt(0.5)).view(np.uint64)[()] - _HALF
# 2^52 with a whole number as its fraction
_WHOLE = np.array(2.0**52).view(np.uint64)[()]
_OFFSET = 2.0**52 + 1022
_LN_2 = np.log(2.0)


@part
def logarithms(x, out, scaled):
    """out = ln x, of one row of lanes; not for 0, infinity or numbers below 1e-307; overwrites
    `scaled`.
    """
    bits = x.view(np.uint64)
    bits_of_out = out.view(np.uint64)
    bits_of_scaled = scaled.view(np.uint64)
    for lane in range(len(x)):
        exponent = (bits[lane] - _LEAST) >> _WIDTH  # e + 1022
        bits_of_scaled[lane] = bits[lane] - (exponent << _WIDTH) + _HALF
        bits_of_out[lane] = exponent | _WHOLE
    for lane in range(len(x)):
        f = scaled[lane] - 1.0
        r = f / (2.0 + f)
        # in two sums that do not wait for each other
        q = r * r
        w = r * r * r * r
        odd = q * (1 / 3 + w * (1 / 7 + w * (1 / 11 + w * (1 / 15 + w * (1 / 19)))))
        even = w * (1 / 5 + w * (1 / 9 + w * (1 / 13 + w * (1 / 17 + w * (1 / 21)))))
        out[lane] = (out[lane] - _OFFSET) * _LN_2 + (2.0 * r + 2.0 * r * (odd + even))
