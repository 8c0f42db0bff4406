import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** A file that is open in an editor. Lines and characters count from 0. */
export interface OpenFile {
  readonly text: string
  /** Returns the text that the editor shows at a position. */
  hover(line: number, character: number): Promise<string>
  /** Returns the errors that the editor underlines. */
  errors(): Promise<{ readonly line: number; readonly message: string }[]>
}

/** TypeScript's language server, driven over standard input and output as an editor does (LSP). */
export class LanguageServer {
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, (message: any) => void>()
  #received = Buffer.alloc(0)
  #lastId = 0

  private constructor(process: ChildProcess) {
    this.#process = process
    process.stdout?.on('data', (chunk: Buffer) => this.#receive(chunk))
  }

  static async start(): Promise<LanguageServer> {
    const tsc = join(root, 'node_modules', '.bin', 'tsc')
    const server = new LanguageServer(
      spawn(tsc, ['--lsp', '--stdio'], { cwd: root, stdio: ['pipe', 'pipe', 'ignore'] }),
    )
    await server.#ask('initialize', {
      processId: process.pid,
      rootUri: pathToFileURL(root).href,
      capabilities: { textDocument: { hover: { contentFormat: ['markdown'] } } },
    })
    server.#send({ method: 'initialized', params: {} })
    return server
  }

  /** Opens a file of this project, with its own content or with other content. */
  open(path: string, text: string = readFileSync(join(root, path), 'utf8')): OpenFile {
    const uri = pathToFileURL(join(root, path)).href
    this.#send({
      method: 'textDocument/didOpen',
      params: { textDocument: { uri, languageId: 'typescript', version: 1, text } },
    })
    return {
      text,
      hover: async (line, character) => {
        const params = { textDocument: { uri }, position: { line, character } }
        const { result, error } = await this.#ask('textDocument/hover', params)
        return result?.contents.value ?? `nothing: ${JSON.stringify(error)}`
      },
      errors: async () => {
        const { result } = await this.#ask('textDocument/diagnostic', { textDocument: { uri } })
        return result.items
          .filter(({ severity }: { severity: number }) => severity === 1)
          .map(({ range, message }: any) => ({ line: range.start.line, message }))
      },
    }
  }

  async stop(): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill()
    await exited
  }

  async #ask(method: string, params: unknown): Promise<any> {
    const id = ++this.#lastId
    const answered = new Promise<any>((resolve) => this.#waiting.set(id, resolve))
    this.#send({ id, method, params })
    return await answered
  }

  #send(message: object): void {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    this.#process.stdin?.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  #receive(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk])
    for (;;) {
      const start = this.#received.indexOf('\r\n\r\n') + 4
      if (start < 4) return
      const end =
        start + Number(/Content-Length: (\d+)/i.exec(this.#received.toString('latin1', 0, start))?.[1])
      if (this.#received.length < end) return
      const message = JSON.parse(this.#received.toString('utf8', start, end))
      this.#received = this.#received.subarray(end)
      // The server asks for the settings and capabilities of the editor. The response is empty.
      if (message.method !== undefined) {
        if (message.id !== undefined) this.#send({ id: message.id, result: null })
        continue
      }
      this.#waiting.get(message.id)?.(message)
      this.#waiting.delete(message.id)
    }
  }
}
