"""Where data, views, encoders, methods, training and evaluation meet: settings, presets, whole experiments."""
