import { retryAfterMs } from '../../../src/base/http/retry-after.ts'
import type { TelemetryEnvelope } from '../../../src/telemetry/index.ts'
import { digestOf } from '../../../src/telemetry/transports/chat/digest.ts'
import { readObject } from '../../../src/telemetry/transports/http/http-target.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('responses of targets', () => {
  const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
    digits: (size) => '9'.repeat(size),
    spaces: (size) => ' '.repeat(size),
    'spaces between digits': (size) => `1${' '.repeat(size)}1`,
    dots: (size) => '1.'.repeat(size),
    dates: (size) => 'Thu Mar  5 06:07:08 2026 '.repeat(size / 20),
  }
  for (const [what, make] of Object.entries(HOSTILE)) {
    it(`a Retry-After header with many ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => retryAfterMs({ retryAfter: make(size), date: make(size) }), 40_000))
  }

  it('a JSON response is read in linear time', () =>
    expectLinearGrowth((size) => readObject(`{"a":${'['.repeat(size)}`), 20_000))
})

describe('messages to chats', () => {
  const event = (text: string): TelemetryEnvelope => ({
    name: text.replace(/\s/g, '').slice(0, 200),
    time: '2026-11-20T12:00:00.123Z',
    level: 'error',
    service: text,
    environment: text,
    sessionId: text,
    attributes: { [text]: text },
    error: { name: 'Error', message: text, stack: `Error: ${text}\n${text}` },
  })

  for (const filler of ['x', ' ', '\n', '`', '&', '\ud800', '\u202e']) {
    it(`a chat message with many ${JSON.stringify(filler)} is written in linear time`, () =>
      expectLinearGrowth((size) => digestOf([{ envelope: event(filler.repeat(size)), count: 1 }]), 20_000))
  }

  it('a chat message about many events is written in linear time', () =>
    expectLinearGrowth(
      (size) =>
        digestOf(
          Array.from({ length: size }, (_, index) => ({ envelope: event(`event.${index}`), count: 1 })),
        ),
      2_000,
    ))
})
