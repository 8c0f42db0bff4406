import { createHash, randomBytes } from 'node:crypto'
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  inputRequired,
} from '@modelcontextprotocol/server'
import { isPromiseLike, isRecord } from '../../base/options/value-kinds.ts'
import { isVisible } from '../../base/options/visible-text.ts'
import { within } from '../../base/within.ts'
import { type DpopReplayStore, MemoryReplayStore } from '../../oauth/dpop/replay-store.ts'
import { StoreGuard } from '../../oauth/store-guard.ts'
import type { CallEvent, Failure } from '../wire/exchange.ts'
import { canonicalJson } from '../wire/json-safe.ts'
import {
  type CallConfirmations,
  type ConfirmedRound,
  checkNumbers,
  openState,
  type SdkContext,
  type Serving,
} from './operation.ts'
import { type PolicySubject, queryOf } from './policy.ts'
import { holderOf } from './request-state.ts'

/** The time that the user has for the answer, in seconds. */
const ANSWER_SECONDS = 600
/** The time that a client has for the next round of a confirmed call, in seconds. */
const ROUND_SECONDS = 3600
const MAX_QUESTION = 1_024
/** The name of the question among the requests of a round. */
const QUESTION = 'confirm'

/** Characters that are not visible, or that change the order of others. */
const HIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu

/** The reasons why a call is refused, with the text for the client. */
const REFUSALS = {
  unsupported: 'This tool needs a confirmation by the user, and this client cannot ask for one.',
  failed: 'This tool needs a confirmation by the user, and the question could not be created.',
  arguments: 'The user has confirmed other arguments. Call the tool again to ask the user.',
  used: 'The confirmation was used already. Call the tool again to ask the user.',
  unavailable: 'The confirmation cannot be checked at the moment. Try again later.',
} as const

const DECLINED = 'The user has not confirmed this call.'

/** The state of a call between its rounds. The client holds it in encrypted form. */
interface KeptState {
  /** The id by which the state is used up. Undefined if there was nothing to confirm so far. */
  readonly id?: string
  /** Seconds since 1970. */
  readonly expiresAt: number
  /** The SHA-256 hash of the arguments. */
  readonly hash: string
  /** `true` if the user has not answered yet. */
  readonly isOpen: boolean
  /** The state of the handler. */
  readonly state?: unknown
}

/**
 * Asks users before tools run. The question is the first round of the call. Its state is bound to the user, the client, the tool,
 * and the arguments, and it can be used once, as can those of later rounds.
 */
export class Confirmations implements CallConfirmations {
  readonly #store: DpopReplayStore
  readonly #guard: StoreGuard
  readonly #timeoutMs: number

  /** @param timeoutMs the time for a question to be created, and for one command to the store */
  constructor(store: DpopReplayStore = new MemoryReplayStore(), timeoutMs: number = 5_000) {
    this.#store = store
    this.#guard = new StoreGuard(timeoutMs)
    this.#timeoutMs = timeoutMs
  }

  readonly round: CallConfirmations['round'] = async (serving, sdk, { definition }, confirm, call, args) => {
    const { exchange, states } = serving
    checkNumbers(call.params.arguments)
    const hash = sha256(canonicalJson(call.params.arguments ?? {}), 'hex')
    // A state of a tool without this option cannot be taken for a confirmation.
    const holder = holderOf(exchange.auth, call.method, definition.name, QUESTION)
    const record = (event: CallEvent, reason?: string, failure?: Failure): void =>
      exchange.telemetry.record(event, call, { confirmation: { hash, reason }, failure })
    const refused = (reason: keyof typeof REFUSALS, failure?: Failure): ConfirmedRound => {
      record('confirm.refused', reason, failure)
      return { refusal: REFUSALS[reason] }
    }
    const sealed = (kept: Pick<KeptState, 'id' | 'isOpen' | 'state'>, seconds: number): Promise<string> =>
      states.seal({ ...kept, hash, expiresAt: Math.floor(Date.now() / 1000) + seconds }, holder, seconds)
    const next = (isConfirmed: boolean, kept: KeptState | undefined): ConfirmedRound => ({
      serving: {
        ...serving,
        states: {
          isKept: true,
          seal: (state) =>
            sealed({ ...(isConfirmed && { id: newId() }), isOpen: false, state }, ROUND_SECONDS),
          open: async () => kept?.state,
        },
      },
      sdk: withAnswers(sdk, kept),
    })

    const given: unknown = sdk.mcpReq.requestState()
    const kept =
      given === undefined
        ? undefined
        : ((await openState(states, given, holder).catch((thrown) => {
            record('confirm.refused', 'state')
            throw thrown
          })) as KeptState)
    const id = kept?.id
    if (kept === undefined || id === undefined) {
      let question: string | undefined
      try {
        const subject = { purpose: 'call', kind: 'tool', name: definition.name, args } as const
        question = await this.#questionOf(() => confirm(queryOf(exchange, subject as PolicySubject)))
      } catch (thrown) {
        return refused('failed', { thrown })
      }
      if (question === undefined) return next(false, kept)
      if (!canAsk(serving, sdk)) return refused('unsupported')
      const requestState = await sealed({ id: newId(), isOpen: true }, ANSWER_SECONDS)
      record('confirm.asked')
      const asked = inputRequired.elicit({ message: question, requestedSchema: EMPTY_FORM })
      return { question: inputRequired({ inputRequests: { [QUESTION]: asked }, requestState }) }
    }

    try {
      const use = () => this.#store.use(id, kept.expiresAt, sha256(holder, 'base64url'))
      if ((await this.#guard.ask(use)) !== true) return refused('used')
    } catch (thrown) {
      return refused('unavailable', { thrown })
    }
    if (kept.hash !== hash) return refused('arguments')
    if (!kept.isOpen) return next(true, kept)
    const answer: unknown = sdk.mcpReq.inputResponses?.[QUESTION]
    if (!isRecord(answer) || answer.action !== 'accept') {
      record('confirm.declined')
      return { refusal: DECLINED }
    }
    record('confirm.accepted')
    return next(true, kept)
  }

  /** Returns the question without hidden characters. @throws what `confirm` has thrown, or if it returned something else. */
  async #questionOf(confirm: () => unknown): Promise<string | undefined> {
    const returned = confirm()
    const text = isPromiseLike(returned) ? await within(returned, this.#timeoutMs, late) : returned
    if (text === undefined) return undefined
    if (typeof text !== 'string' || text.length > MAX_QUESTION) throw invalidQuestion()
    const question = text.replace(HIDDEN, '')
    if (!isVisible(question)) throw invalidQuestion()
    return question
  }
}

const EMPTY_FORM = { type: 'object' as const, properties: {} }

/** Returns `true` if the client can show a form. */
function canAsk({ sessionCapabilities }: Serving, { mcpReq }: SdkContext): boolean {
  const envelope = mcpReq.envelope as Partial<Record<string, ClientCapabilities>> | undefined
  const { elicitation } = envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? sessionCapabilities ?? {}
  // Without a mode, `elicitation` is the capability to show forms.
  return isRecord(elicitation) && ('form' in elicitation || !('url' in elicitation))
}

/** Returns the context of a round with the state of the handler, and without the answer to the question. */
function withAnswers(sdk: SdkContext, kept: KeptState | undefined): SdkContext {
  if (kept === undefined) return sdk
  const { inputResponses, ...mcpReq } = sdk.mcpReq
  const state = kept.state === undefined ? undefined : QUESTION
  return {
    ...sdk,
    mcpReq: {
      ...mcpReq,
      ...(!kept.isOpen && inputResponses !== undefined && { inputResponses }),
      requestState: (() => state) as SdkContext['mcpReq']['requestState'],
    },
  }
}

/** Returns an id that no client can guess, in the form of the keys of a store of used values. */
function newId(): string {
  return randomBytes(32).toString('base64url')
}

function sha256(text: string, encoding: 'hex' | 'base64url'): string {
  return createHash('sha256').update(text).digest(encoding)
}

function late(): DOMException {
  return new DOMException('confirm did not settle in time', 'TimeoutError')
}

function invalidQuestion(): TypeError {
  return new TypeError(
    `confirm must return a question of 1 to ${MAX_QUESTION} characters, or undefined to ask nothing`,
  )
}
