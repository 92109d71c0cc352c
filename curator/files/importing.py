"""Taking a file of readings in, by the API or on a page: what it is, and how far it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from common.runtime.memory import give_back
from common.web.auth import Principal
from curator.errors import BadImport
from curator.files.csv_import import Import
from curator.files.green_button_import import FeedImport, FeedMap
from curator.files.options import ImportOptions
from curator.files.progress import Imports, Progress
from curator.intake.intake import Intake
from curator.settings import CuratorSettings


@dataclass(frozen=True)
class Importer:
    """Imports files into the intake; `imports` tells meanwhile how far each is."""

    intake: Intake
    settings: CuratorSettings
    imports: Imports

    async def take(
        self, chunks: AsyncIterator[bytes], options: ImportOptions, caller: Principal, *, xml: bool
    ) -> Progress:
        """Read a file to its end; `xml`: its media type says Green Button where the options do not.

        Raises Invalid or BadImport for a map that means nothing, and BadImport, which then shows
        the progress, for a file that is none of this map. What was stored by then stays.
        """
        feed = options.form == "green-button" or (xml and options.form is None)
        mapping = options.feed_map() if feed else options.column_map()
        progress = self.imports.begin(options.import_id)
        work: Import | FeedImport
        if isinstance(mapping, FeedMap):
            work = FeedImport(self.intake, self.settings, mapping, caller, progress)
        else:
            work = Import(self.intake, self.settings, mapping, caller, progress)
        await self.intake.look()
        try:
            await work.run(chunks)
        except BadImport as error:
            progress.state = "failed"
            extra = {**error.extra, "import": progress.document()}
            raise BadImport(error.detail, pointer=error.pointer or "", extra=extra) from None
        except BaseException:
            progress.state = "failed"
            raise
        finally:
            await asyncio.to_thread(give_back)
        return progress
