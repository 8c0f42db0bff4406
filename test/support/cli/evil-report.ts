import type { DoctorReport } from '../../../cli/doctor/doctor.ts'

/** Markup that runs scripts if it is not escaped. */
const EVIL = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;</style>`

/** A report with every status, and with markup in every text. */
export const EVIL_REPORT: DoctorReport = {
  schema: 1,
  tool: 'mcp-gatekit doctor',
  version: EVIL,
  url: `https://mcp.example.com/${EVIL}`,
  startedAt: '2026-11-20T12:00:00.000Z',
  durationMs: 1234,
  requests: 29,
  verdict: 'fail',
  summary: { ok: 1, warn: 1, fail: 1, skip: 1 },
  checks: (['ok', 'warn', 'fail', 'skip'] as const).map((status) => ({
    id: `x.${status}`,
    group: EVIL,
    title: `A title ${EVIL}`,
    status,
    seen: `${EVIL} ${'x'.repeat(4_000)}`,
    ...((status === 'warn' || status === 'fail') && { hint: EVIL }),
    durationMs: 1,
  })),
}
