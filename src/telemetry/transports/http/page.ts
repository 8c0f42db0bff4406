import { isNode } from '../../../runtime.ts'

/** The part of an event target that is used here. */
interface EventTarget {
  addEventListener(type: string, listener: () => void): void
  removeEventListener(type: string, listener: () => void): void
}

/** The globals of a page in a browser. */
interface PageGlobals extends EventTarget {
  readonly document?: { readonly visibilityState: string }
  readonly Request?: { readonly prototype: object }
  readonly Blob?: typeof Blob
  readonly navigator?: { sendBeacon?(url: string, body: Blob): boolean }
}

/**
 * The maximum number of bytes of all requests in flight that may outlive the page. Browsers allow 65,536, and other code of
 * the page shares this limit.
 */
const MAX_KEEPALIVE_BYTES = 60_000

/** The maximum number of such requests. Chromium allows 20 for each process, which several pages may share. */
const MAX_KEEPALIVE_REQUESTS = 15

/** The maximum number of bytes of a batch in a page, so that two batches may be in flight when the page is hidden. */
export const MAX_PAGE_BATCH_BYTES: number = MAX_KEEPALIVE_BYTES / 2

let bytesInFlight = 0
let requestsInFlight = 0

const globals = globalThis as unknown as PageGlobals
const page = globals.document === undefined || isNode() ? undefined : globals

/** Returns `true` if the code runs in a page of a browser. */
export function isPage(): boolean {
  return page !== undefined
}

/** Returns `true` in a page that is hidden or about to be closed. */
export function isPageHidden(): boolean {
  return page?.document?.visibilityState === 'hidden'
}

/**
 * Calls `hidden` when the page is hidden or closed: nothing may run in it afterwards. Listeners on the document run before.
 * @returns a function that removes the listeners.
 */
export function whenPageIsHidden(hidden: () => void): () => void {
  if (page === undefined) return () => {}
  const onChange = (): void => {
    if (isPageHidden()) hidden()
  }
  page.addEventListener('visibilitychange', onChange)
  page.addEventListener('pagehide', hidden)
  return () => {
    page.removeEventListener('visibilitychange', onChange)
    page.removeEventListener('pagehide', hidden)
  }
}

/** Returns `true` if another batch of the maximum size may outlive the page. */
export function hasKeepaliveLeft(): boolean {
  return (
    requestsInFlight < MAX_KEEPALIVE_REQUESTS && bytesInFlight + MAX_PAGE_BATCH_BYTES <= MAX_KEEPALIVE_BYTES
  )
}

/**
 * Reserves the bytes of a request that may outlive the page.
 * @param length returns the number of bytes of its body.
 * @returns a function that frees them, or `undefined` if there are not enough left, or if this is not a page.
 */
export function reserveKeepalive(length: () => number): (() => void) | undefined {
  if (page === undefined || !hasKeepalive(page)) return undefined
  const bytes = length()
  if (requestsInFlight >= MAX_KEEPALIVE_REQUESTS || bytesInFlight + bytes > MAX_KEEPALIVE_BYTES)
    return undefined
  bytesInFlight += bytes
  requestsInFlight++
  return () => {
    bytesInFlight -= bytes
    requestsInFlight--
  }
}

/**
 * Passes JSON to the browser, which posts it even if the page is closed. Only for hidden pages of browsers whose `fetch` cannot
 * do so, because the outcome is unknown, and because the request cannot have own headers.
 * @returns `true` if the browser has accepted it.
 */
export function sendBeacon(url: string, json: string): boolean {
  if (page?.Blob === undefined || hasKeepalive(page) || !isPageHidden()) return false
  return page.navigator?.sendBeacon?.(url, new page.Blob([json], { type: 'application/json' })) === true
}

function hasKeepalive({ Request }: PageGlobals): boolean {
  return Request !== undefined && 'keepalive' in Request.prototype
}
