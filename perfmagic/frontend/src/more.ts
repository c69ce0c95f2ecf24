// What few results need: several ranks, and memory. Where it is not there, the rest works without it.
import { KINDS } from "./interact/detail_rows.ts";
import { COLUMNS } from "./interact/foot.ts";
import { meeting, message } from "./interact/meet_details.ts";
import { MEMORY_TAB } from "./interact/memory_panel.ts";
import { PICKERS } from "./interact/pick.ts";
import { pickMeeting, waitsOf } from "./interact/rank_parts.ts";
import { TABS } from "./interact/tabs.ts";
import { VIEWS } from "./host/mount.ts";
import { RanksView } from "./host/ranks.ts";
import { PARTS } from "./model/build.ts";
import { addRanks, addStack } from "./model/more.ts";
import { TEXTS } from "./paint/gutters.ts";
import { memoryText, paintMemory, writeMemory, writeReserved } from "./paint/memory.ts";
import { paintMeeting, paintMeets } from "./paint/meets.ts";
import { FILLS, OUTLINES, OVER, WORDS } from "./paint/paint.ts";
import { paintRank, rankText, writeRank } from "./paint/rank.ts";

PARTS.push(addRanks, addStack);
TABS.push(MEMORY_TAB);
VIEWS.ranks = RanksView;
FILLS.set("rank", paintRank).set("memory", paintMemory);
WORDS.set("rank", writeRank).set("memory", writeMemory);
TEXTS.set("rank", rankText).set("memory", memoryText);
PICKERS.set("rank", pickMeeting);
OVER.push(paintMeets, writeReserved);
COLUMNS.push(waitsOf);
OUTLINES.set("meeting", paintMeeting).set("message", paintMeeting);
KINDS.set("meeting", meeting).set("message", message);
