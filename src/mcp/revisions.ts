/** The revision without protocol sessions. The revisions before it are those of 2025. */
export const MODERN_REVISION = '2026-07-28'
