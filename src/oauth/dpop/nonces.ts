import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * The nonces of RFC 9449 §9, without stored state. A nonce is a keyed hash of the period in which it was issued, and is
 * valid in that period and the next one. Nodes with the same secret issue the same nonces.
 */
export class DpopNonces {
  readonly #secret: string | Buffer
  readonly #periodSeconds: number

  /** @param lifetimeSeconds the maximum time that a nonce is valid. The minimum is half of it. */
  constructor(secret: string | Buffer, lifetimeSeconds: number) {
    this.#secret = secret
    this.#periodSeconds = lifetimeSeconds / 2
  }

  /** Returns the current nonce. */
  current(): string {
    return this.#nonceOf(this.#period())
  }

  /** Returns `true` if `nonce` is valid. */
  accepts(nonce: unknown): boolean {
    if (typeof nonce !== 'string') return false
    const period = this.#period()
    return [period, period - 1].some((one) => isSame(nonce, this.#nonceOf(one)))
  }

  #period(): number {
    return Math.floor(Date.now() / 1000 / this.#periodSeconds)
  }

  #nonceOf(period: number): string {
    return createHmac('sha256', this.#secret).update(`mcp-gatekit DPoP-Nonce ${period}`).digest('base64url')
  }
}

function isSame(nonce: string, expected: string): boolean {
  const [one, other] = [Buffer.from(nonce), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}
