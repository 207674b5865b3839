"""Before anything runs: a first configuration (`dphrl init`), and memory, jobs and hours of one (`dphrl plan`)."""
