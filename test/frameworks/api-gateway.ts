import type { RequestListener } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** An event of API Gateway for an HTTP API, payload format 2.0. */
export interface HttpApiEvent {
  readonly version: '2.0'
  readonly routeKey: string
  readonly rawPath: string
  readonly rawQueryString: string
  readonly headers: Readonly<Record<string, string>>
  readonly requestContext: {
    readonly domainName: string
    readonly http: {
      readonly method: string
      readonly path: string
      readonly protocol: string
      readonly sourceIp: string
    }
    readonly stage: string
    readonly timeEpoch: number
  }
  readonly body?: string
  readonly isBase64Encoded: boolean
}

/** The response of a function in payload format 2.0. */
export interface HttpApiResult {
  readonly statusCode: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly isBase64Encoded?: boolean
}

/**
 * Calls a Lambda function for each request, as API Gateway does: the event and the result are JSON, and the response is sent
 * when it is complete.
 * @param encodesBodies whether bodies reach the function in base64.
 */
export function apiGateway(
  handler: (event: HttpApiEvent) => Promise<HttpApiResult>,
  { encodesBodies = false }: { readonly encodesBodies?: boolean } = {},
): RequestListener {
  return async (req, res) => {
    const url = new URL(req.url ?? '/', 'http://localhost')
    const bytes = await buffer(req)
    const { host = '', ...headers } = req.headers
    const event: HttpApiEvent = {
      version: '2.0',
      routeKey: '$default',
      rawPath: url.pathname,
      rawQueryString: url.search.slice(1),
      headers: {
        ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
        host,
      },
      requestContext: {
        domainName: host,
        http: {
          method: req.method ?? 'GET',
          path: url.pathname,
          protocol: 'HTTP/1.1',
          sourceIp: '127.0.0.1',
        },
        stage: '$default',
        timeEpoch: Date.now(),
      },
      ...(bytes.length > 0 && { body: bytes.toString(encodesBodies ? 'base64' : 'utf8') }),
      isBase64Encoded: bytes.length > 0 && encodesBodies,
    }
    const result: HttpApiResult = JSON.parse(JSON.stringify(await handler(JSON.parse(JSON.stringify(event)))))
    const body = Buffer.from(result.body ?? '', result.isBase64Encoded === true ? 'base64' : 'utf8')
    res.writeHead(result.statusCode, { ...result.headers, 'content-length': body.length }).end(body)
  }
}
