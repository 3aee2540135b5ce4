"""Losses, the training objective and temperature calibration."""
