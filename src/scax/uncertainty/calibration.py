"""How far probabilities can be trusted."""

import numpy as np


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """−1/n Σ log p_i[label_i]; labels are columns of p."""
    p = probabilities[np.arange(len(labels)), np.asarray(labels, int)]
    return float(-np.mean(np.log(np.maximum(p, np.finfo(float).tiny))))


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error: Σ_b n_b/n |share correct − mean confidence| over bins of the confidence max_k p_k."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == np.asarray(labels, int)
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(np.sum(right[place == b]) - np.sum(confidence[place == b])) for b in range(bins)]
    return float(np.sum(gaps) / len(right))
