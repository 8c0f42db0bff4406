/** The state of a requirement. */
export type Status = 'implemented' | 'by option' | 'delegated' | 'gap'

export const STATUSES: readonly Status[] = ['implemented', 'by option', 'delegated', 'gap']

/** A test that shows that a requirement is met: its file, and its title without the titles of the groups around it. */
export type Proof = readonly [file: string, title: string]

/** One requirement of a source, in words of this project. */
export interface Requirement {
  /** Unique in all sources. */
  readonly id: string
  /** The section of the source, or its own number of the requirement. */
  readonly section: string
  /** `MUST`, `SHOULD NOT`, a level of AISVS, or empty if the source has none. */
  readonly level: string
  readonly requirement: string
  readonly status: Status
  /** Sentences on what meets it. They name the option for `by option`, the party for `delegated`, and what is missing for `gap`. */
  readonly how: string
  /** Required for `implemented` and `by option`. */
  readonly test?: Proof
}

/** A document with requirements. */
export interface Source {
  readonly title: string
  /** The name in the summary. */
  readonly short: string
  /** The text below the heading, in Markdown. */
  readonly about: string
  readonly rows: readonly Requirement[]
}
