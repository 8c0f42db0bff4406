import Ajv2020Module from 'ajv/dist/2020.js'
import { expect } from 'chai'
import { KitMcpServer, mcpHandler } from '../../../src/index.ts'
import { tableOf } from '../../../src/mcp/router/router.ts'
import { toolsFromOpenApi } from '../../../src/openapi/index.ts'
import { listen } from '../listen.ts'
import { clientOf, listener } from './documents.ts'
import { parsed, type RealDocument } from './real-documents.ts'
import { sampleOf } from './sample.ts'
import { StubServer } from './stub-server.ts'

/** The outcomes of calls. */
export interface CallCounts {
  /** The route's answer came back. */
  answered: number
  /** The document's own example is not what its schema says, and the tool says so. */
  notAsPromised: number
  /** The arguments that were made up here are not what the document wants. */
  refused: number
}

/**
 * Calls every `step`th tool of a document, through a client of the official SDK, at a server made of the document.
 * Each call must reach its own route, and what comes back be the route's answer; or an error, where a second validator,
 * which sees the document as it was written, refuses that answer too.
 */
export async function callTools(
  { text }: RealDocument,
  { http, step }: { readonly http: boolean; readonly step: number },
): Promise<CallCounts> {
  const document = parsed(text)
  const base = new URL(document.servers?.[0]?.url ?? '', 'http://localhost').pathname.replace(/\/$/, '')
  const stub = new StubServer(document, base)
  const routes: string[] = []
  let seen = 0
  const router = await toolsFromOpenApi(text, {
    ...(http ? { baseUrl: (await listen(stub.listener)).origin + base } : { app: stub.listener }),
    scopes: false,
    include: ({ method, path }) => seen++ % step === 0 && routes.push(`${method} ${path}`) > 0,
    onLeftOut: ({ method, path }) => void routes.splice(routes.indexOf(`${method} ${path}`), 1),
  })
  const { origin, server } = await listen(listener(mcpHandler(KitMcpServer.create().router(router).build())))
  // The client compiles a thousand schemas at once, in this same process.
  server.keepAliveTimeout = 60_000
  const client = await clientOf(origin)
  // A client that has listed the tools validates their results too.
  await client.listTools()

  const counts: CallCounts = { answered: 0, notAsPromised: 0, refused: 0 }
  const isRight = secondOpinion(document)
  for (const [index, [name, tool]] of [...tableOf(router).tools].entries()) {
    const schema = tool.definition.inputSchema as Record<string, any>
    const result = await client.callTool({
      name,
      arguments: sampleOf(schema, schema) as Record<string, unknown>,
    })
    const said = (result.content as { text?: string }[])[0]?.text ?? ''
    const asked = stub.take()
    if (asked === undefined) {
      expect(said, name).to.match(/^Invalid arguments for tool/)
      counts.refused++
      continue
    }
    const { operation, answer } = asked
    expect(operation).to.equal(routes[index])
    const promised = tool.outputJsonSchema !== undefined && answer !== undefined
    const expected = promised ? isRight(answer.schema, answer.value) : true
    if (expected !== undefined) expect(result.isError !== true, `${name}: ${said}`).to.equal(expected)
    if (result.isError === true) {
      expect(said, name).to.match(/^HTTP 2\d\d [\w ]+: the response does not match its schema: /)
      counts.notAsPromised++
      continue
    }
    if (answer !== undefined) expect(JSON.parse(said), name).to.deep.equal(answer.value)
    counts.answered++
  }
  await client.close()
  return counts
}

/** Says whether a value is what a schema of the document allows; undefined where it cannot say. */
function secondOpinion(
  document: Record<string, any>,
): (schema: object, value: unknown) => boolean | undefined {
  const schemas: object[] = []
  const ajv = new Ajv2020Module.default({ strict: false, validateSchema: false, logger: false })
  ajv.addFormat('date-time', /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:?\d\d)$/)
  ajv.addFormat('uri', /^[a-z][a-z0-9+.-]*:[^\s]*$/i)
  allowNullWhereNullable(document)
  ajv.addSchema({ ...document, answers: schemas }, 'document')
  return (schema, value) => {
    const index = schemas.push(schema) - 1
    try {
      return ajv.validate({ $ref: `document#/answers/${index}` }, value)
    } catch {
      return undefined
    }
  }
}

/** According to OpenAPI 3.0.3, an enum without null excludes null despite `nullable`. Documents do not mean that. */
function allowNullWhereNullable(node: unknown): void {
  if (typeof node !== 'object' || node === null) return
  const { nullable, enum: values } = node as { nullable?: unknown; enum?: unknown }
  if (nullable === true && Array.isArray(values)) values.push(null)
  for (const child of Object.values(node)) allowNullWhereNullable(child)
}
