import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Returns a `SKILL.md` with only the members that a skill needs. */
export function manifest(name: string, description = `Explains ${name}`, more = ''): string {
  return `---\nname: ${name}\ndescription: ${description}\n${more}---\n# ${name}\n`
}

/** Files of two skills, of which one is nested, and of a folder without a skill. */
export const FILES: Readonly<Record<string, string | Uint8Array>> = {
  'README.md': 'Not a skill',
  'drafts/idea.md': 'Not a skill',
  'refunds/SKILL.md': manifest('refunds', 'Refunds an order', 'license: MIT\nmetadata:\n  team: support\n'),
  'refunds/references/rules & limits.md': '\uFEFFAt most 100 €',
  'refunds/references/a%2Fb.txt': 'A percent sign',
  'refunds/scripts/check.PY': 'print(1)',
  'refunds/logo.png': new Uint8Array([0x89, 0x50, 0xff, 0x00]),
  'refunds/empty.unknown': '',
  'refunds/.git/config': 'secret',
  'refunds/.env': 'secret',
  'refunds/partial/SKILL.md': manifest('partial'),
  'refunds/partial/table.csv': 'a,b',
  'Team A/returns/SKILL.md': manifest('returns'),
  'Team A/returns/assets/icon.svg': '<svg/>',
}

/** A temporary folder with files. */
export interface Folder {
  readonly path: string
  readonly remove: () => void
}

export function folderOf(files: Readonly<Record<string, string | Uint8Array>>): Folder {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'skills-')))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), content)
  }
  return { path, remove: () => rmSync(path, { recursive: true }) }
}
