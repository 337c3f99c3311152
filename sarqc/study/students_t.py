"""Student's t at 5 %, two-sided: how many standard errors a mean of few draws must be from 0 to be told from it."""

from __future__ import annotations

import numpy as np

# t(0.975) for 1 to 30 degrees of freedom, as printed in every table of it.
TABLE = np.array(
    [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
     2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
     2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423]
)  # fmt: skip
_NORMAL = 1.959964  # the same for any number of them


def clear_from(freedom: np.ndarray | float) -> np.ndarray:
    """Standard errors from which a mean is clear, elementwise, by degrees of freedom; NaN for less than one of them.

    Fractions are rounded down. Beyond the table it is the expansion around the normal quantile, right to 1e-4.
    """
    whole = np.floor(np.asarray(freedom, dtype=np.float64))
    z, many = _NORMAL, np.maximum(whole, len(TABLE))
    beyond = z + (z**3 + z) / (4 * many) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * many**2)
    listed = TABLE[np.clip(np.nan_to_num(whole), 1, len(TABLE)).astype(int) - 1]
    return np.where(whole >= 1, np.where(whole <= len(TABLE), listed, beyond), np.nan)
