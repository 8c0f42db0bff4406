import { createServer } from 'node:http'
import express from 'express'
import {
  COMMON_SECRET_KEYS,
  createMcpAdapter,
  gracefulShutdown,
  jwtVerifier,
  KitMcpRouter,
  KitToolError,
  mcpServer,
} from 'mcp-gatekit'
import { auditFile, KitTelemetry, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'
import { z } from 'zod'
import { listen } from './listen.ts'
import { settings } from './settings.ts'

// A public server for the notes of teams. Everybody can search published notes. Users who sign in work with the notes of
// their own team, as far as their role permits.
const { ISSUER, RESOURCE, AUDIT_SECRET, AUDIT_FILE, PORT } = settings({
  ISSUER: 'the authorization server, such as https://auth.example.com',
  RESOURCE: 'the URL of this server as clients see it, with /mcp at its end',
  AUDIT_SECRET: 'at least 32 random bytes, such as the output of openssl rand -hex 32',
  AUDIT_FILE: 'the file of the audit log, such as audit.log',
  PORT: 'the port of this server on 127.0.0.1',
})

// Telemetry. Each request writes one line, and what must be proved later is also written to the audit log.
const telemetry = KitTelemetry.create()
  .withService('team-notes')
  .withSampling({ always: ['kit.mcp.request.completed'] })
  .withRedaction({ denylistKeys: COMMON_SECRET_KEYS })
  .withLogger(console)
  .addTransport(LoggerTransportAdapter.create({ logger: console }))
  .withAudit({
    transport: auditFile(AUDIT_FILE),
    names: ['kit.mcp.auth.refused', 'kit.mcp.policy.denied', 'kit.mcp.limit.reached', 'notes.*'],
    secret: AUDIT_SECRET,
  })
  .build()

/** A user. The team and the role are claims of the token, and empty if the token does not have them. */
interface Member {
  readonly id: string
  readonly team: string
  readonly role: string
}
const textOf = (claim: unknown): string => (typeof claim === 'string' ? claim : '')

/** The notes of all teams. A real server has a database. */
let notes = [
  { team: 'garden', name: 'roses', text: 'Cut roses in March.', isPublished: true },
  { team: 'garden', name: 'budget', text: 'Spend 200 on seeds.', isPublished: false },
  { team: 'kitchen', name: 'menu', text: 'Soup on Monday.', isPublished: false },
]

/** The tools that each role may use. A role without an entry may not use any. */
const TOOLS = new Map([
  ['viewer', ['read_notes']],
  ['editor', ['read_notes', 'write_note']],
  ['owner', ['read_notes', 'write_note', 'publish_note', 'export_notes']],
])

const name = z.string().regex(/^[a-z-]{1,40}$/)

const router = KitMcpRouter.create()
  .context(() => ({ team: '' }))
  .user<Member>()
  // Sets the team in the context of handlers and in the line of the request.
  .use(({ name, auth, context, session }, next) => {
    context.team = auth?.user?.team ?? ''
    session?.set({ 'notes.team': context.team })
    if (context.team === '' && name !== 'search') throw new KitToolError('Your account has no team.')
    return next()
  })
  .tool(
    'search',
    { description: 'Searches published notes', input: z.object({ text: z.string().min(1) }), public: true },
    ({ text }, { session }) => {
      const found = notes.filter((note) => note.isPublished && note.text.includes(text))
      session?.set({ 'notes.found': found.length })
      return found.map((note) => note.text)
    },
  )
  .tool('read_notes', { description: 'Reads the notes of your team' }, (_args, { context }) =>
    notes.filter(({ team }) => team === context.team).map(({ name, text }) => ({ name, text })),
  )
  .tool(
    'write_note',
    { description: 'Writes a note', input: z.object({ name, text: z.string().max(10_000) }) },
    ({ name, text }, { context: { team } }) => {
      const others = notes.filter((note) => note.team !== team || note.name !== name)
      notes = [...others, { team, name, text, isPublished: false }]
      return `Wrote ${name}`
    },
  )
  .tool(
    'publish_note',
    { description: 'Lets everybody search a note', input: z.object({ name }) },
    ({ name }, { context: { team }, session }) => {
      const note = notes.find((note) => note.team === team && note.name === name)
      if (note === undefined) throw new KitToolError(`The note ${name} does not exist`)
      notes = notes.map((other) => (other === note ? { ...note, isPublished: true } : other))
      session?.emit('notes.published', { attributes: { team, note: name } })
      return `Published ${name}`
    },
  )
  .tool(
    'export_notes',
    { description: 'Exports your notes', limits: { calls: { max: 5, perSeconds: 3600, by: 'user' } } },
    (_args, { context }) => JSON.stringify(notes.filter(({ team }) => team === context.team)),
  )

const adapter = createMcpAdapter({
  router,
  telemetry,
  serverInfo: { name: 'team-notes', version: '1.0.0' },
  oauth: {
    issuer: ISSUER,
    resource: RESOURCE,
    anonymous: true,
    rateLimit: { points: 100, durationSeconds: 60 },
    verifyToken: jwtVerifier<Member>({
      issuer: ISSUER,
      audience: RESOURCE,
      requiredClaims: ['sub'],
      mapUser: ({ sub, team, role }) => ({ id: String(sub), team: textOf(team), role: textOf(role) }),
    }),
  },
  // Without a token, only `search` can be called. The list has all tools, so that clients know when to sign in.
  authorize: ({ name, auth }) =>
    auth === undefined ||
    name === 'search' ||
    TOOLS.get(auth.user?.role ?? '')?.includes(name) || { deny: 'Your role may not use this tool.' },
  limits: {
    calls: { max: 120, perSeconds: 60, by: 'user' },
    concurrency: { max: 10, by: 'user' },
    timeoutMs: 120_000,
    maxResultBytes: 1_000_000,
  },
})

const http = createServer(express().use(mcpServer(adapter)))
gracefulShutdown(http, { telemetry, signals: ['SIGTERM', 'SIGINT'] })
console.log(`Team notes are at http://127.0.0.1:${await listen(http, Number(PORT))}/mcp`)
