import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CliContext } from '../output.ts'
import { INIT_HELP, parseInitArguments } from './arguments.ts'
import { projectFiles } from './project.ts'

/** `mcp-gatekit init …`. Resolves with the exit code: 0, or 1 when nothing could be written. @throws {UsageError} */
export async function initCommand(argv: readonly string[], { stdout, stderr }: CliContext): Promise<number> {
  const command = parseInitArguments(argv)
  if (command.kind === 'help') {
    stdout.write(INIT_HELP)
    return 0
  }
  const { folder, options } = command
  const files = projectFiles(options)
  try {
    await mkdir(folder, { recursive: true })
    const present = await readdir(folder)
    const taken = [...files.keys()].filter((name) => present.includes(name))
    if (taken.length > 0) {
      stderr.write(`mcp-gatekit: nothing was written, as ${folder} has ${taken.join(', ')} already\n`)
      return 1
    }
    // What came into being since then is not touched either.
    for (const [name, text] of files) await writeFile(join(folder, name), text, { flag: 'wx' })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    stderr.write(`mcp-gatekit: ${folder} cannot be written to (${code})\n`)
    return 1
  }
  stdout.write(`${[...files.keys()].map((name) => `wrote ${join(folder, name)}`).join('\n')}

Next:
${folder === '.' ? '' : `  cd ${quoted(folder)}\n`}  npm install
  npm test
  npm start        ${options.issuer === undefined ? '# prints a token to try it with' : `# takes tokens of ${options.issuer}`}
`)
  return 0
}

function quoted(folder: string): string {
  return /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`
}
