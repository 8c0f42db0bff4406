/** A response with the address that it came from. */
export interface Page {
  readonly url: string
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

interface Cookie {
  readonly name: string
  readonly value: string
  readonly host: string
  readonly path: string
}

/** A browser without scripts: it keeps cookies, follows redirects, and sends forms. */
export class Browser {
  #cookies: Cookie[] = []
  /** The addresses that were visited. */
  readonly history: string[] = []

  /** Opens a page and follows redirects, but not to a URL that `stopAt` accepts. */
  async open(
    url: string,
    stopAt: (url: string) => boolean = () => false,
    init: {
      readonly method?: string
      readonly body?: URLSearchParams
      readonly headers?: Record<string, string>
    } = {},
  ): Promise<Page> {
    let next = url
    let request: typeof init = init
    for (let redirects = 0; redirects < 20; redirects++) {
      this.history.push(next)
      const response = await fetch(next, {
        redirect: 'manual',
        method: request.method ?? 'GET',
        headers: { cookie: this.cookiesFor(next), ...request.headers },
        ...(request.body !== undefined && { body: request.body }),
      })
      this.#keep(next, response.headers.getSetCookie())
      const body = await response.text()
      const location = response.headers.get('location')
      if (response.status < 300 || response.status > 399 || location === null)
        return { url: next, status: response.status, headers: response.headers, body }
      const target = new URL(location, next).href
      if (stopAt(target)) return { url: target, status: response.status, headers: response.headers, body }
      next = target
      request = {}
    }
    throw new Error('too many redirects')
  }

  /** Sends the form of a page with the button of this value. */
  async submit(
    page: Page,
    decision: string,
    stopAt?: (url: string) => boolean,
    headers: Record<string, string> = {},
  ): Promise<Page> {
    const fields = new URLSearchParams()
    for (const [, name = '', value = ''] of page.body.matchAll(
      /<input type="hidden" name="([^"]*)" value="([^"]*)">/g,
    ))
      fields.set(name, value)
    fields.set('decision', decision)
    const { origin } = new URL(page.url)
    return await this.open(page.url, stopAt, {
      method: 'POST',
      body: fields,
      headers: { origin, 'sec-fetch-site': 'same-origin', ...headers },
    })
  }

  /** Returns the header `Cookie` for a URL. Cookies with longer paths come first (RFC 6265 section 5.4). */
  cookiesFor(url: string): string {
    const { hostname, pathname } = new URL(url)
    return this.#cookies
      .filter(
        ({ host, path }) =>
          host === hostname && (path === '/' || pathname === path || pathname.startsWith(`${path}/`)),
      )
      .toSorted((a, b) => b.path.length - a.path.length)
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ')
  }

  /** Copies the cookies of another browser whose names match. */
  copyFrom(other: Browser, names: RegExp): void {
    this.#cookies.push(...other.#cookies.filter(({ name }) => names.test(name)))
  }

  /** Removes the cookies whose names match. */
  forget(names: RegExp): void {
    this.#cookies = this.#cookies.filter(({ name }) => !names.test(name))
  }

  #keep(url: string, headers: readonly string[]): void {
    const host = new URL(url).hostname
    for (const header of headers) {
      const [pair = '', ...attributes] = header.split(/; */)
      const [name = '', value = ''] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
      const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5) ?? '/'
      this.#cookies = this.#cookies.filter(
        (one) => one.name !== name || one.host !== host || one.path !== path,
      )
      if (value !== '' && !attributes.some((attribute) => /^expires=Thu, 01 Jan 1970/i.test(attribute)))
        this.#cookies.push({ name, value, host, path })
    }
  }
}
