"""The figures of the documentation: data from results/, drawn as SVG that carries its data."""
