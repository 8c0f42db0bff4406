import type { RequestListener } from 'node:http'
import { resolved, sampleOf } from './sample.ts'

type Json = Record<string, any>

/** A request to the stub, and its response. */
export interface Asked {
  /** As `GET /pets/{id}`. */
  readonly operation: string
  readonly url: string
  readonly body: string
  /** Where the schema of the answer is, and the answer itself; undefined if it is not JSON. */
  readonly answer: { readonly schema: Json; readonly value: unknown; readonly isExample: boolean } | undefined
}

/** A server that has the routes of a document, and answers with its examples, or else what its schemas allow. */
export class StubServer {
  readonly listener: RequestListener
  #asked: Asked | undefined
  readonly #document: Json
  readonly #routes: readonly { method: string; path: string; pattern: RegExp; node: Json }[]

  /** @param base before every path */
  constructor(document: Json, base: string) {
    this.#document = document
    this.#routes = Object.entries(document.paths as Json)
      .flatMap(([path, item]) =>
        Object.entries(item as Json)
          .filter(([, node]) => node.responses !== undefined)
          .map(([method, node]) => ({
            method: method.toUpperCase(),
            path,
            pattern: new RegExp(
              `^${path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^}]*\}/g, '[^/]+')}$`,
            ),
            node: node as Json,
          })),
      )
      // What has more of its own comes before what has parameters there.
      .sort((one, other) => literals(other.path) - literals(one.path))
    this.listener = (req, res) => {
      const url = (req.url ?? '').slice(base.length)
      const chunks: Buffer[] = []
      req.on('data', (chunk) => chunks.push(chunk))
      req.on('end', () => {
        const route = this.#routeOf(req.method ?? '', url.split('?', 1)[0] as string)
        if (route === undefined || !req.url?.startsWith(base)) return void res.writeHead(404).end()
        const { status, type, answer } = this.#answerOf(route.node)
        const operation = `${route.method} ${route.path}`
        this.#asked = { operation, url, body: Buffer.concat(chunks).toString(), answer }
        if (type === undefined) return void res.writeHead(status).end()
        res.writeHead(status, { 'Content-Type': type })
        res.end(answer === undefined ? 'text' : JSON.stringify(answer.value))
      })
    }
  }

  /** The latest request since the last time. */
  take(): Asked | undefined {
    const asked = this.#asked
    this.#asked = undefined
    return asked
  }

  #routeOf(method: string, path: string) {
    return this.#routes.find((route) => route.method === method && route.pattern.test(path))
  }

  #answerOf(node: Json): { status: number; type?: string; answer?: Asked['answer'] } {
    const root = this.#document
    const [code, response] = Object.entries(node.responses as Json).find(([one]) => one.startsWith('2')) ?? [
      '204',
      {},
    ]
    const status = Number(code) || 200
    const content = resolved(response, root).content ?? {}
    const type = Object.keys(content).find((one) => /\bjson\b/.test(one)) ?? Object.keys(content)[0]
    if (type === undefined) return { status }
    const { schema, example, examples = {} } = content[type] as Json
    if (!/\bjson\b/.test(type) || schema === undefined) return { status, type }
    const [first] = Object.values(examples)
    const value = example ?? (first === undefined ? undefined : resolved(first, root).value)
    const isExample = value !== undefined
    return { status, type, answer: { schema, isExample, value: isExample ? value : sampleOf(schema, root) } }
  }
}

function literals(path: string): number {
  return path.replace(/\{[^}]*\}/g, '').length
}
