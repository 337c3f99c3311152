/** Nouns of the page of runs. */

import type { Trouble } from "../base/problem.js";
import type { Recipe, State } from "../base/types.d.ts";
import type { Visitor } from "../base/whoami.js";
import type { Figure } from "../charts/bind.js";

/** Of a run, what its row shows: see sarqc/jobs/run.py. */
export interface Run {
  id: string;
  state: State;
  recipe: Recipe;
  owner: string;
  batch: string | null;
  created: string;
  progress: { done: number; total: number } | null;
  study_id: string | null;
  summary: { perplexity?: number | null; perplexity_float?: number | null; accuracy?: number | null } | null;
}

/** Studies side by side: see sarqc/figures/compare.py. */
export interface Comparison {
  studies: { id: string; name: string }[];
  differences: { title: string; values: unknown[] }[];
  numbers: { title: string; kind: string; values: (number | string | null)[] }[];
  figure: Figure;
}

/** What the page of runs shows. */
export interface RunsState {
  readonly runs: ReadonlyMap<string, Run>;
  readonly next: string | null; // where older runs go on, if there are any
  readonly filter: string;
  readonly picked: readonly string[]; // for a comparison, in the order of picking
  readonly asking: string | null; // the run whose deletion waits for a second click
  readonly comparison: Comparison | null;
  readonly trouble: Trouble | null;
  readonly who: Visitor | null; // looks at it; null where the server did not say
}

export type RunsAction =
  | { type: "visited"; who: Visitor | null }
  | { type: "listed"; runs: Run[]; next: string | null }
  | { type: "changed"; run: Run }
  | { type: "removed"; id: string }
  | { type: "filtered"; text: string }
  | { type: "picked"; id: string; isPicked: boolean }
  | { type: "deletion asked"; id: string | null }
  | { type: "compared"; comparison: Comparison }
  | { type: "trouble"; trouble: Trouble | null };

/** A study that no run of this host owns. */
export interface StudyEntry {
  id: string;
  title: string;
  model: string;
  origin: string;
  created: string;
  is_mine: boolean; // whether whoever looks may share and remove it
}

/** A study that can't be read, and why. */
export interface DamagedEntry {
  id: string;
  error: Trouble;
  is_mine: boolean;
}

export interface StudiesState {
  readonly studies: readonly StudyEntry[];
  readonly damaged: readonly DamagedEntry[];
  readonly asking: string | null; // the study whose deletion waits for a second click
  readonly sharing: string | null; // the study whose links are shown
  readonly isSending: boolean;
  readonly trouble: Trouble | null;
}

export type StudiesAction =
  | { type: "listed"; studies: StudyEntry[]; damaged: DamagedEntry[] }
  | { type: "removed"; id: string }
  | { type: "deletion asked"; id: string | null }
  | { type: "sharing"; id: string }
  | { type: "sending"; isSending: boolean }
  | { type: "trouble"; trouble: Trouble };
