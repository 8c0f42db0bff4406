import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { BodyBytes } from '../../base/http/body-reader.ts'
import type { NodeRequest } from '../../base/http/node-middleware.ts'
import type { Context } from '../context.ts'

/** The maximum size of a submitted form. */
const MAX_FORM_BYTES = 16_384

/** Returns the form of a request, or `undefined` if it is too large. */
export async function readForm(req: NodeRequest): Promise<URLSearchParams | undefined> {
  // A body parser may have read the body.
  if (typeof req.body === 'object' && req.body !== null && !req.readable) {
    const fields = Object.entries(req.body)
    return new URLSearchParams(
      fields.filter((field): field is [string, string] => typeof field[1] === 'string'),
    )
  }
  if (Number(req.headers['content-length']) > MAX_FORM_BYTES) return undefined
  const body = new BodyBytes(MAX_FORM_BYTES)
  for await (const chunk of req.iterator({ destroyOnReturn: false }))
    if (body.add(chunk) !== 'added') return undefined
  return new URLSearchParams(body.whole.toString('utf8'))
}

/** Returns `false` if another site has sent a form. */
export function isOwnForm(ctx: Context, url: string): boolean {
  return (
    ['', new URL(url).origin].includes(ctx.get('origin')) &&
    ['', 'same-origin'].includes(ctx.get('sec-fetch-site'))
  )
}

/** Returns a new secret of 256 bits, in 43 characters of base64url. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Returns the SHA-256 of a secret, in base64url. */
export function hashOf(value: string): string {
  return createHash('sha256').update(value).digest('base64url')
}

/** Compares two secrets in constant time. */
export function isEqual(one: string | null | undefined, other: string): boolean {
  if (one === null || one === undefined) return false
  const [a, b] = [one, other].map((value) => createHash('sha256').update(value).digest())
  return timingSafeEqual(a as Buffer, b as Buffer)
}

/** A cookie with a secret that binds steps of a sign-in to one browser. */
export class SecretCookie {
  readonly #name: string
  readonly #isSecure: boolean
  readonly #seconds: number | undefined

  /**
   * @param url the URL of this server
   * @param name the name of the cookie, without its prefix
   * @param seconds its lifetime. Defaults to the session of the browser.
   */
  constructor(url: string, name: string, seconds?: number) {
    this.#isSecure = new URL(url).protocol === 'https:'
    // Browsers accept a cookie with this prefix only from the host itself, and only over https.
    this.#name = this.#isSecure ? `__Host-${name}` : name
    this.#seconds = seconds
  }

  /** Returns the secret, or `undefined` if there is none with the form of one. */
  read(ctx: Context): string | undefined {
    return ctx.cookies.get(this.#name)?.match(/^[\w-]{43}$/)?.[0]
  }

  /** Returns `true` if the browser has the secret with a hash. */
  isOf(ctx: Context, hash: string): boolean {
    const value = this.read(ctx)
    return value !== undefined && isEqual(hashOf(value), hash)
  }

  /** Sets the secret, or removes it. */
  set(ctx: Context, value: string | null): void {
    ctx.cookies.set(this.#name, value, {
      httpOnly: true,
      // The browser comes back from the provider, which is another site.
      sameSite: 'lax',
      path: '/',
      secure: this.#isSecure,
      ...(value === null ? { maxAge: 0 } : this.#seconds !== undefined && { maxAge: this.#seconds * 1000 }),
      overwrite: true,
    })
  }
}

/** Sends the browser to an address of this server or of the provider. */
export function redirect(ctx: Context, location: string): void {
  ctx.set('Cache-Control', 'no-store')
  ctx.set('Referrer-Policy', 'no-referrer')
  ctx.status = 303
  ctx.set('Location', location)
  ctx.body = ''
}
