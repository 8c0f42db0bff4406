import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CliContext } from '../cli-context.ts'
import { INIT_HELP, parseInitArguments } from './arguments.ts'
import { PROVIDERS, type ProviderName, projectFiles } from './project.ts'

/** Runs `mcp-gatekit init …`. Resolves with the exit code: 0, or 1 if the files cannot be written. @throws {UsageError} */
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
      stderr.write(
        `mcp-gatekit: nothing was written because ${folder} already contains ${taken.join(', ')}\n`,
      )
      return 1
    }
    // The flag protects files that were created since then.
    for (const [name, text] of files) await writeFile(join(folder, name), text, { flag: 'wx' })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    stderr.write(`mcp-gatekit: cannot write to ${folder} (${code})\n`)
    return 1
  }
  stdout.write(`${[...files.keys()].map((name) => `wrote ${join(folder, name)}`).join('\n')}

Next steps:
${folder === '.' ? '' : `  cd ${quoted(folder)}\n`}  npm install
  npm test
  npm start        ${options.issuer === undefined ? '# prints a test token' : `# accepts tokens from ${options.issuer}`}
  npm run dev      # signs in at a local authorization server, and shows each request
${options.provider === undefined ? '' : signInSteps(options.provider)}`)
  return 0
}

function signInSteps(provider: ProviderName): string {
  const { title, guide } = PROVIDERS[provider]
  return `
To sign users in with ${title}:
  cp .env.example .env
  Set the variables in .env. node_modules/mcp-gatekit/docs/guides/providers/${guide} describes each step.
`
}

function quoted(folder: string): string {
  return /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`
}
