import { randomUUID } from 'node:crypto'
import { readdir, readFile, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { KitMcpRouter, KitToolError } from 'mcp-gatekit'
import { z } from 'zod'

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/

/** Notes as Markdown files in one folder. */
export class NoteStore {
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** @throws {Error} if `folder` does not exist, so that a mistyped path does not become an empty store */
  static async open(folder: string): Promise<NoteStore> {
    const found = await stat(folder).catch(() => undefined)
    if (!found?.isDirectory()) throw new Error(`The folder ${folder} does not exist`)
    return new NoteStore(folder)
  }

  async list(): Promise<string[]> {
    const files = await readdir(this.#folder)
    return files
      .filter((file) => file.endsWith('.md'))
      .map((file) => file.slice(0, -'.md'.length))
      .filter((name) => NAME.test(name))
      .sort()
  }

  /** Returns the lines that contain `text`, ignoring case. */
  async search(text: string): Promise<{ name: string; line: string }[]> {
    const wanted = text.toLowerCase()
    const notes = await Promise.all(
      (await this.list()).map(async (name) => ({ name, lines: (await this.read(name))?.split('\n') ?? [] })),
    )
    return notes.flatMap(({ name, lines }) =>
      lines.filter((line) => line.toLowerCase().includes(wanted)).map((line) => ({ name, line })),
    )
  }

  async read(name: string): Promise<string | undefined> {
    try {
      return await readFile(this.#path(name), 'utf8')
    } catch (error) {
      if (isAbsent(error)) return undefined
      throw error
    }
  }

  async write(name: string, text: string): Promise<void> {
    // Writing a temporary file and renaming it ensures that readers never get an incomplete note.
    const draft = join(this.#folder, `.${randomUUID()}.tmp`)
    try {
      await writeFile(draft, text, { flag: 'wx' })
      await rename(draft, this.#path(name))
    } finally {
      await rm(draft, { force: true })
    }
  }

  /** Resolves with `false` if the note does not exist. */
  async delete(name: string): Promise<boolean> {
    try {
      await unlink(this.#path(name))
      return true
    } catch (error) {
      if (isAbsent(error)) return false
      throw error
    }
  }

  /** Returns the path of a note. The check prevents paths outside the folder: names contain no dots or separators. */
  #path(name: string): string {
    if (!NAME.test(name)) throw new KitToolError(`A note cannot be named ${JSON.stringify(name)}`)
    return join(this.#folder, `${name}.md`)
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

/** The user who calls a tool. */
export interface NotesUser {
  readonly id: string
  readonly email?: string
}

/** The application context, which handlers get as `context.context`. */
export interface NotesContext {
  readonly notes: NoteStore
  /** Set by `onVerified` (see server.ts) before a handler runs. */
  user: NotesUser | undefined
}

const name = z.string().regex(NAME).describe('Lowercase letters, digits, and dashes')

/** Returns a router with six tools. The server requires `mcp:read` for all of them; writing also requires `mcp:write`. */
export function notesRouter(store: NoteStore) {
  return KitMcpRouter.create<NotesContext>()
    .context(() => ({ notes: store, user: undefined }))
    .tool(
      'list_notes',
      {
        title: 'List notes',
        description: 'Lists the names of all notes',
        input: z.object({}),
        output: z.object({ notes: z.array(z.string()) }),
        annotations: { readOnlyHint: true, openWorldHint: false },
      },
      async (_args, { context }) => ({ notes: await context.notes.list() }),
    )
    .tool(
      'search_notes',
      {
        title: 'Search notes',
        description: 'Finds the lines that contain a string, in all notes',
        input: z.object({ text: z.string().min(1) }),
        output: z.object({ found: z.array(z.object({ name: z.string(), line: z.string() })) }),
        annotations: { readOnlyHint: true, openWorldHint: false },
      },
      async ({ text }, { context }) => ({ found: await context.notes.search(text) }),
    )
    .tool(
      'read_note',
      {
        title: 'Read a note',
        description: 'Reads one note',
        input: z.object({ name }),
        annotations: { readOnlyHint: true, openWorldHint: false },
      },
      async ({ name }, { context }) => {
        const text = await context.notes.read(name)
        if (text === undefined) throw new KitToolError(`The note ${name} does not exist`)
        return text
      },
    )
    .tool(
      'write_note',
      {
        title: 'Write a note',
        description: 'Writes a note, replacing an existing note with the same name',
        input: z.object({ name, text: z.string().max(100_000) }),
        scopes: ['mcp:write'],
        annotations: { destructiveHint: true, idempotentHint: true, openWorldHint: false },
      },
      async ({ name, text }, { context, session }) => {
        await context.notes.write(name, text)
        // An event of the application in the session of this request. Redaction hashes the email address.
        session?.emit('notes.written', { attributes: { note: name, length: text.length, ...context.user } })
        return `Wrote ${name}`
      },
    )
    .tool(
      'delete_note',
      {
        title: 'Delete a note',
        description: 'Deletes a note',
        input: z.object({ name }),
        scopes: ['mcp:write'],
        annotations: { destructiveHint: true, openWorldHint: false },
      },
      async ({ name }, { context }) => {
        if (!(await context.notes.delete(name))) throw new KitToolError(`The note ${name} does not exist`)
        return `Deleted ${name}`
      },
    )
    .tool(
      'whoami',
      {
        title: 'Who am I?',
        description: 'Returns the user, the client, and the scopes of the caller',
        input: z.object({}),
        output: z.object({ user: z.string(), client: z.string(), scopes: z.array(z.string()) }),
        annotations: { readOnlyHint: true, openWorldHint: false },
      },
      (_args, { context, auth }) => ({
        user: context.user?.id ?? 'unknown',
        client: auth?.clientId ?? 'none',
        scopes: auth?.scopes ?? [],
      }),
    )
}
