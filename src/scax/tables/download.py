"""One file over HTTP: resumed where it broke off, its length compared, checked before it gets its name."""

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ATTEMPTS = 3
TIMEOUT = 20.0  # seconds without a byte
PAUSE = 0.5


class DownloadError(ValueError):
    """Why a file could not be had."""


def download(
    url: str,
    path: Path,
    check: Callable[[Path], Any],
    progress: Callable[[int, int | None], Any] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> None:
    """Download `url` to `path`. `check(file)` raises if the content is wrong; `progress(bytes, total)` is told.

    What has come so far is kept beside as .part: a broken transfer goes on from there, within this call or the next.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    host = urlsplit(url).hostname or url
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * attempt)
        try:
            _transfer(url, part, timeout, progress)
            break
        except urllib.error.HTTPError as error:
            reason = f"{error.code} {error.reason}"
            if error.code == 416:  # more than the whole file is there already: not our file
                part.unlink(missing_ok=True)
            elif error.code < 500 and error.code != 429:
                raise DownloadError(f"{host} answered {reason}") from None
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "strerror", None) or str(error.reason)
        except (TimeoutError, http.client.HTTPException, ConnectionError) as error:
            reason = str(error) or type(error).__name__
    else:
        raise DownloadError(f"{host} did not deliver after {ATTEMPTS} attempts ({reason})")
    try:
        check(part)
    except ValueError:
        part.unlink(missing_ok=True)
        raise DownloadError(
            f"what {host} delivered is not the file expected: its sha256 or its number of rows differs"
        ) from None
    os.replace(part, path)


def _transfer(url: str, part: Path, timeout: float, progress: Callable[[int, int | None], Any] | None) -> None:
    """Append what is missing to the part. Chunked reads do not notice a body cut short: lengths are compared."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "scax", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        if have and not (answer.status == 206 and str(answer.headers["Content-Range"]).startswith(f"bytes {have}-")):
            have = 0  # the server sends the whole file again
        length = answer.headers["Content-Length"]
        total = None if length is None else have + int(length)
        with open(part, "ab" if have else "wb") as file:
            done = have
            while block := answer.read1(1 << 16):  # whatever has come: nothing is lost if the rest does not
                file.write(block)
                done += len(block)
                if progress is not None:
                    progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"broken off after {done:,} of {total:,} bytes")
