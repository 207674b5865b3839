"""Before a run: a first configuration (`dphrl init`), a few answers (`dphrl look`), memory and hours (`dphrl plan`)."""
