"""Data sets that can be downloaded: what they are, where they come from, where they are kept.

A copy is looked for in --data-dir, in the folder named by SCAX_DATA, then in the cache; `fetch` downloads to the cache.
"""

import dataclasses
import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._cache import cache_folder
from .download import DownloadError, download

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
COPIES = "https://raw.githubusercontent.com"  # files of a commit never change; their bytes are those of UCI


class DatasetError(ValueError):
    """A data set that is not here or not as it should be; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Remote:
    """`names` are the file names accepted (plain or .gz); sha256 is that of the uncompressed bytes, None if unknown."""

    about: str
    rows: int
    columns: int
    target: str
    names: tuple[str, ...]
    urls: tuple[str, ...]
    sha256: str | None
    drop: tuple[str, ...] = ()
    header: bool = True
    task: str = "regression"

    def verify(self, path: Path, packed: bool | None = None) -> None:
        """Refuse a file with another content; where no sum is known, one with another number of rows."""
        verify(path, self.sha256, packed, None if self.sha256 else self.rows + self.header)


REMOTE = {
    "casp": Remote(
        "size of the residue of protein structures", 45_730, 9, "RMSD", ("casp.csv", "CASP.csv"),
        (
            f"{UCI}/00265/CASP.csv",
            f"{COPIES}/himabindu26/BioInformatics/4331e93121287d4300991ebe9de49ce62b3b93a1/CASP.csv",
        ),
        "712d2759f8113622a3ba93a47e451397147df946111f6ffdd8c655385d564aef",
    ),
    "parkinsons": Remote(
        "Parkinson's disease score from voice recordings", 5875, 19, "total_UPDRS",
        ("parkinsons.csv", "parkinsons_updrs.data"),
        (
            f"{UCI}/parkinsons/telemonitoring/parkinsons_updrs.data",
            f"{COPIES}/behnazrzf/Parkinson-s_Telemonitoring/f603774b38bfc967f20b4752bec4b6f872917d98/data/"
            "parkinsons_updrs.data",
        ),
        "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
        drop=("subject#", "motor_UPDRS"),
    ),
    "skillcraft1": Remote(
        "league of StarCraft players, from their play", 3395, 18, "LeagueIndex",
        ("skillcraft1.csv", "SkillCraft1_Dataset.csv"), (f"{UCI}/00272/SkillCraft1_Dataset.csv",), None,
        drop=("GameID",),
    ),
    "winequality-white": Remote(
        "taste of white wines, from chemical analysis", 4898, 11, "quality", ("winequality-white.csv",),
        (
            f"{UCI}/wine-quality/winequality-white.csv",
            f"{COPIES}/auxa/Wine-Quality-Prediction/13f35ab1aea80d0f6131ca45e9770f6aa6e2cd3e/winequality-white.csv",
        ),
        "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
    ),
    "susy": Remote(
        "signal or background in particle collisions, 2.4 GB unpacked", 5_000_000, 18, "column_1",
        ("SUSY.csv",), (f"{UCI}/00279/SUSY.csv.gz",), None, header=False, task="classification",
    ),
}  # fmt: skip


def folders(data_dir: Path | None = None) -> list[Path]:
    """Where a data set is looked for, in order."""
    given = [data_dir, Path(os.environ["SCAX_DATA"]) if os.environ.get("SCAX_DATA") else None]
    return [folder for folder in given if folder is not None] + [cache_folder()]


def find(name: str, data_dir: Path | None = None) -> Path | None:
    """The file of a data set, None if it is not here; one with other content than it should have is refused."""
    about = REMOTE[name]
    for folder in folders(data_dir):
        for file in about.names:
            for path in (folder / file, folder / f"{file}.gz"):
                if path.is_file():
                    about.verify(path)
                    return path
    return None


def fetch(name: str, data_dir: Path | None = None, progress: Callable[[int, int | None], Any] | None = None) -> Path:
    """The file of a data set, downloaded to the cache if it is not here."""
    here = find(name, data_dir)
    if here is not None:
        return here
    about = REMOTE[name]
    ending = ".gz" if about.urls[0].endswith(".gz") else ""
    path = cache_folder() / f"{about.names[0]}{ending}"
    told = []
    for url in about.urls:
        try:
            download(url, path, lambda file: about.verify(file, packed=bool(ending)), progress)
            return path
        except (DownloadError, DatasetError) as error:
            told.append(str(error))
    raise DatasetError(
        f"{name} could not be downloaded: {'; '.join(told)}. Without a network, get {about.names[-1]} "
        "elsewhere and give its folder with --data-dir or SCAX_DATA."
    )


def verify(path: Path, sha256: str | None, packed: bool | None = None, lines: int | None = None) -> None:
    """Refuse a file that does not unpack, or whose uncompressed bytes do not have this sum, or this many lines."""
    packed = path.name.endswith(".gz") if packed is None else packed
    digest, ends, last = hashlib.sha256(), 0, b""
    try:
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
                ends, last = ends + part.count(b"\n"), part[-1:]
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        raise DatasetError(f"{path} is damaged ({error}): remove it and fetch it again") from None
    if sha256 is not None and digest.hexdigest() != sha256:
        raise DatasetError(
            f"{path} has not the content it should have (sha256 {digest.hexdigest()[:12]}…, expected {sha256[:12]}…): "
            "remove it and fetch it again"
        )
    found = ends + (last not in {b"", b"\n"})
    if lines is not None and found != lines:
        raise DatasetError(f"{path} has {found:,} lines, expected {lines:,}: remove it and fetch it again")
