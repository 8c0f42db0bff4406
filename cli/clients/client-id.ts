/** The clients that `doctor --as` replays and that have a section in docs/guides/clients.md. */
export const CLIENT_IDS = [
  'claude',
  'claude-code',
  'chatgpt',
  'codex',
  'cursor',
  'vscode',
  'gemini',
  'inspector',
] as const

export type ClientId = (typeof CLIENT_IDS)[number]
