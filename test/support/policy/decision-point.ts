import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { listen } from '../mcp/wire.ts'
import { type Evaluation, evaluationIn, evaluationsIn } from './authzen-schemas.ts'

/** A request that the decision point has received. */
export interface DecisionRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** The body as it was sent. */
  readonly text: string
  readonly evaluations: readonly Evaluation[]
}

/** The decision about an evaluation: `true`, `false`, or the whole response object. */
export type Decide = (evaluation: Evaluation) => unknown

/** A decision point of AuthZEN 1.0 on loopback that checks every request against the schemas. */
export interface TestDecisionPoint {
  readonly url: string
  readonly requests: DecisionRequest[]
  decide: Decide
  /** Replaces the response to a request. */
  respond: ((req: IncomingMessage, res: ServerResponse, request: DecisionRequest) => unknown) | undefined
  close(): Promise<void>
}

export async function startDecisionPoint(): Promise<TestDecisionPoint> {
  const point = { url: '', requests: [] as DecisionRequest[], decide: () => true, respond: undefined }
  const listening = await listen(async (req, res) => {
    try {
      const request = await requestOf(req)
      point.requests.push(request)
      const { respond, decide } = point as unknown as TestDecisionPoint
      if (respond !== undefined) {
        await respond(req, res, request)
        return
      }
      const decisions = request.evaluations.map((evaluation) => {
        const decided = decide(evaluation)
        return typeof decided === 'boolean' ? { decision: decided } : decided
      })
      const single = request.path.endsWith('/evaluation')
      json(res, single ? decisions[0] : { evaluations: decisions }, request)
    } catch (error) {
      res.writeHead(400, { 'content-type': 'text/plain' }).end(String(error))
    }
  })
  return Object.assign(point, { url: listening.origin, close: () => listening.close() })
}

/** Sends a body as JSON, with the identifier of the request. */
export function json(res: ServerResponse, body: unknown, { headers }: DecisionRequest): void {
  res.writeHead(200, {
    'content-type': 'application/json',
    'x-request-id': String(headers['x-request-id']),
  })
  res.end(JSON.stringify(body))
}

async function requestOf(req: IncomingMessage): Promise<DecisionRequest> {
  const { method = '', url = '', headers } = req
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) text += chunk
  if (method !== 'POST' || headers['content-type'] !== 'application/json')
    throw new Error('the request must be a POST with application/json')
  const body = JSON.parse(text)
  const evaluations = url.endsWith('/access/v1/evaluations') ? evaluationsIn(body) : [evaluationIn(body)]
  if (!/\/access\/v1\/evaluations?$/.test(url)) throw new Error('the path must be one of the API')
  return { method, path: url, headers, text, evaluations }
}
