import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * The nonces of RFC 9449 §9, without a memory: each is a keyed hash of the period it was given in. One is
 * good for the period it was given in and the next; whoever has the secret makes the same ones.
 */
export class DpopNonces {
  readonly #secret: string | Buffer
  readonly #periodSeconds: number

  /** @param lifetimeSeconds how long a nonce is good at most; at least half of it. */
  constructor(secret: string | Buffer, lifetimeSeconds: number) {
    this.#secret = secret
    this.#periodSeconds = lifetimeSeconds / 2
  }

  /** The nonce to use now. */
  current(): string {
    return this.#nonceOf(this.#period())
  }

  /** Whether a proof may still carry `nonce`. */
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

function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)]
  return one.length === other.length && timingSafeEqual(one, other)
}
