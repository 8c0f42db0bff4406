import { styleText } from 'node:util'

type Fetch = typeof globalThis.fetch
type Style = Parameters<typeof styleText>[0]

const colors = process.stdout.isTTY === true && !process.env.NO_COLOR

/** Colors `text` if the output is a terminal and NO_COLOR is not set. */
export function paint(style: Style, text: string): string {
  return colors ? styleText(style, text) : text
}

/** Returns the beginning of a token or a code, which identifies it but cannot be used. */
export function shorten(secret: string): string {
  return secret.length > 8 ? `${secret.slice(0, 8)}…` : secret
}

interface Exchange {
  readonly request: string
  readonly details: string[]
  status?: number
  done: Promise<void>
}

/** A `fetch` that records requests, responses, and the secrets in them. */
export class Wire {
  /** All recorded tokens, codes, and verifiers. */
  readonly secrets: Set<string> = new Set()
  readonly #names: Readonly<Record<string, string>>
  readonly #isShort: boolean
  readonly #documents = new Set<string>()
  #exchanges: Exchange[] = []

  /**
   * @param names the printed name of each origin
   * @param form `short` prints one line for each document, token, tool call, and refusal
   */
  constructor(names: Readonly<Record<string, string>>, form: 'short' | 'full') {
    this.#names = names
    this.#isShort = form === 'short'
  }

  readonly fetch: Fetch = (input, init) => {
    const method = init?.method ?? 'GET'
    const url = new URL(input instanceof Request ? input.url : input)
    const body =
      init?.body instanceof URLSearchParams || typeof init?.body === 'string' ? String(init.body) : ''
    const exchange: Exchange = {
      request: `${this.#names[url.origin] ?? url.host}  ${method.padEnd(4)} ${this.#path(url)}`,
      details: this.#requestDetails(url, new Headers(init?.headers), body),
      done: Promise.resolve(),
    }
    const answer = fetch(input, init).then(async (response) => {
      exchange.status = response.status
      exchange.details.push(...(await this.#responseDetails(url, response)))
      return response
    })
    exchange.done = answer.then(
      () => {},
      () => {},
    )
    this.#exchanges.push(exchange)
    return answer
  }

  /** Prints all exchanges since the last call, in the order of the requests. */
  async print(): Promise<void> {
    const exchanges = this.#exchanges
    this.#exchanges = []
    await Promise.all(exchanges.map((exchange) => exchange.done))
    for (const { request, status = 0, details } of exchanges) {
      const [, method = ''] = (this.#isShort && /^> ([a-z/]+(?: \w+)?)[ ;]/.exec(details[0] ?? '')) || []
      const isMinor = status < 400 && (status >= 300 || / {2}(?:GET {2}\/mcp|POST \/mcp)$/.test(request))
      if (this.#isShort && isMinor && !method.startsWith('tools/call')) continue
      console.log(`    ${request}  ${paintStatus(status)}  ${method}`.trimEnd())
      const shown = this.#isShort ? details.flatMap(shortForm) : details
      for (const line of shown) console.log(`                 ${paint('dim', line)}`)
    }
  }

  /** Records a secret and returns its printable form. */
  #hide(secret: string): string {
    this.secrets.add(secret)
    return shorten(secret)
  }

  #path(url: URL): string {
    const path = url.pathname.replace(/(?<=^\/(?:interaction|auth)\/).*/, shorten)
    const query = ['client_id', 'scope', 'resource', 'code_challenge_method']
      .filter((name) => url.searchParams.has(name))
      .map((name) => `${name}=${url.searchParams.get(name)}`)
    return query.length > 0 ? `${path}?${query.join('&')}` : path
  }

  #requestDetails(url: URL, headers: Headers, body: string): string[] {
    if (url.pathname === '/token') {
      const form = new URLSearchParams(body)
      const parts = ['grant_type', 'code', 'code_verifier', 'resource', 'scope']
        .filter((name) => form.has(name))
        .map((name) => {
          const value = form.get(name) ?? ''
          return `${name}=${name.startsWith('code') ? this.#hide(value) : value}`
        })
      return [`> ${parts.join(' ')}`]
    }
    const token = /^Bearer (.*)/.exec(headers.get('authorization') ?? '')?.[1]
    const authorization =
      token === undefined ? 'no Authorization' : `Authorization: Bearer ${this.#hide(token)}`
    if (body.startsWith('{')) {
      const { method, params } = JSON.parse(body) as { method?: string; params?: { name?: string } }
      const version = headers.get('mcp-protocol-version')
      const parts = [method, params?.name, version && `(MCP-Protocol-Version: ${version})`]
      return [`> ${parts.filter(Boolean).join(' ')}; ${authorization}`]
    }
    return token === undefined ? [] : [`> ${authorization}`]
  }

  async #responseDetails(url: URL, response: Response): Promise<string[]> {
    const challenge = response.headers.get('www-authenticate')
    if (challenge !== null) return [`< WWW-Authenticate: ${challenge}`]

    const location = response.headers.get('location')
    if (location !== null) {
      const target = new URL(location, url)
      const code = target.searchParams.get('code')
      const where = target.origin === url.origin ? '' : target.origin
      return [`< Location: ${where}${this.#path(target)}${code === null ? '' : `?code=${this.#hide(code)}`}`]
    }

    if (url.pathname === '/token' && response.ok) {
      const answer = (await response.clone().json()) as Record<string, unknown>
      const token = String(answer.access_token)
      this.#hide(token)
      const { typ } = decode(token, 0)
      const { aud, scope, sub, email } = decode(token, 1)
      return [
        `< access_token=${shorten(token)} token_type=${answer.token_type} expires_in=${answer.expires_in}`,
        `  inside: typ=${typ} aud=${aud} scope="${scope}" sub=${sub} email=${email}`,
      ]
    }

    if (url.pathname.startsWith('/.well-known/') && response.ok) {
      if (this.#documents.has(url.href)) return ['< the document above']
      this.#documents.add(url.href)
      const document = (await response.clone().json()) as Record<string, unknown>
      const shown = [
        'resource',
        'authorization_servers',
        'scopes_supported',
        'issuer',
        'authorization_endpoint',
      ]
      return shown.filter((key) => key in document).map((key) => `< ${key}: ${JSON.stringify(document[key])}`)
    }
    return []
  }
}

/** The lines of the short form: a challenge without its texts, and the claims of a token. */
function shortForm(line: string): string[] {
  if (line.startsWith('< WWW-Authenticate'))
    return [
      line.replaceAll(/(?:realm|resource_metadata|error_description)="[^"]*",? ?/g, '').replace(/, $/, ''),
    ]
  return line.startsWith('  inside:') ? [line.trim().replace('inside', '< access token')] : []
}

function paintStatus(status: number): string {
  if (status === 0) return paint('red', 'no response')
  return paint(status < 300 ? 'green' : status < 400 ? 'cyan' : 'yellow', String(status))
}

/** Decodes a part of a JWT without verification, only for display. */
function decode(jwt: string, part: 0 | 1): Record<string, unknown> {
  return JSON.parse(Buffer.from(jwt.split('.')[part] ?? '', 'base64url').toString())
}
