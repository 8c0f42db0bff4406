import { EventEmitter, once } from 'node:events'
import { expect } from 'chai'
import { KitTelemetrySession } from '../../../src/telemetry/index.ts'
import { ambientRuns } from '../../../src/telemetry/session/context.ts'
import {
  type Deferred,
  deferred,
  expectCode,
  expectRejection,
  recording,
  settle,
} from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

function build() {
  const { builder, ...rest } = recording()
  return { ...rest, manager: builder.build() }
}

describe('a session', () => {
  it('events of a session after id() have the new id', () => {
    const { manager, events } = build()
    const session = manager.session().attributes({ a: 1 })
    session.emit('x')
    session.id('mine').emit('x')
    session.run(() => {
      session.emit('x')
      session.id('other').emit('x')
    })
    expect(
      events()
        .map(({ sessionId }) => sessionId)
        .slice(1),
    ).to.deep.equal(['mine', 'mine', 'other'])
    expect(events().map(({ attributes }) => attributes)).to.deep.equal(Array(4).fill({ a: 1 }))
  })

  it('events of a session have its actor, scope, attributes, and id', () => {
    const { manager, events } = build()
    const session = manager.session()
    expect(
      session
        .actor('user', 'u1', { plan: 'pro' })
        .scope('org', 'o1', { a: 1 })
        .attributes({ a: 1, b: 1 })
        .id('mine'),
    ).to.equal(session)
    session.attributes({ b: 2 })
    session.emit('x', { attributes: { c: 3 } })
    expect(events()[0]).to.deep.include({
      sessionId: 'mine',
      actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } },
      scope: { type: 'org', id: 'o1', tags: { a: 1 } },
      attributes: { a: 1, b: 2, c: 3 },
    })
  })

  it('run covers a query that starts when it is awaited', async () => {
    const { builder, events } = recording()
    const manager = builder.build()
    const query = {
      // biome-ignore lint/suspicious/noThenProperty: a lazy query is a thenable
      then(done: (row: string) => void) {
        manager.emit('db.query')
        done('row')
      },
    }
    const row: string = await (manager
      .session()
      .actor('user', 'u1')
      .run(() => query as Wrong) as Wrong)
    expect(row).to.equal('row')
    expect(events()[0]?.actor?.id).to.equal('u1')
  })

  it('attributes that are added later do not change events, states, and runs before, also not inherited ones', async () => {
    const { builder, events } = recording()
    const manager = builder.build()
    const session = manager.session().attributes({ a: 1 }).attributes({ b: 1 })
    const state = session.getState()
    session.emit('x')
    await session.attributes({ a: 2 }).run(async () => {
      const inner = manager.session()
      session.attributes(JSON.parse('{"__proto__":3}')).attributes({ c: 3 })
      inner.attributes({ d: 4 }).emit('x')
      manager.emit('x')
    })
    expect(state.attributes).to.deep.equal({ a: 1, b: 1 })
    expect(JSON.stringify(events().map(({ attributes }) => attributes))).to.equal(
      '[{"a":1,"b":1},{"a":2,"b":1,"d":4},{"a":2,"b":1,"__proto__":3,"c":3}]',
    )
  })

  it('an event replaces the actor and scope of its session, and overrides its attributes by key', () => {
    const { manager, events } = build()
    const session = manager
      .session()
      .actor('user', 'u1', { a: 1 })
      .scope('org', 'o1', { a: 1 })
      .attributes({ a: 1, b: { c: 1 } })
    session.emit('x', {
      sessionId: 's',
      actor: { type: 'bot' },
      scope: { type: 'team', id: 't' },
      attributes: { b: { d: 2 }, a: undefined },
    })
    expect(events()[0]).to.deep.include({
      sessionId: 's',
      actor: { type: 'bot' },
      scope: { type: 'team', id: 't' },
      attributes: { a: 1, b: { d: 2 } },
    })
    session.emit('x')
    expect(events()[1]?.attributes).to.deep.equal({ a: 1, b: { c: 1 } })
  })

  it('a session copies its values, and redacts them only in its events', () => {
    const { builder, events } = recording()
    const manager = builder.withRedaction({ denylistKeys: ['password'], maxStringLength: 4 }).build()
    const given = { deep: { list: [1] }, password: 'p', text: 'long text', at: new Date(0) }
    const tags = { password: 'p', a: [1] }
    const session = manager.session().attributes(given).actor('user', 'u', tags)
    given.deep.list.push(2)
    tags.a.push(2)
    session.emit('x')
    expect(events()[0]).to.deep.include({
      attributes: { deep: { list: [1] }, text: 'lon…', at: '197…' },
      actor: { type: 'user', id: 'u', tags: { a: [1] } },
    })
    expect(session.getState().attributes).to.deep.equal({
      deep: { list: [1] },
      password: 'p',
      text: 'long text',
      at: '1970-01-01T00:00:00.000Z',
    })
  })

  it('getState returns deep copies', () => {
    const { manager } = build()
    const session = manager.session()
    expect(session.getState()).to.have.all.keys('sessionId', 'startedAt', 'ended', 'attributes')
    expect(session.getState().startedAt).to.equal(new Date(session.getState().startedAt).toISOString())
    session.actor('user', 'u1', { a: { b: 1 } }).attributes({ a: { b: 1 } })
    const state = session.getState() as Wrong
    state.attributes.a.b = 2
    state.actor.tags.a.b = 2
    state.sessionId = 'other'
    expect(session.getState()).to.deep.include({
      ended: false,
      actor: { type: 'user', id: 'u1', tags: { a: { b: 1 } } },
      attributes: { a: { b: 1 } },
    })
    expect(session.getState().sessionId).not.to.equal('other')
  })

  describe('once ended', () => {
    it('an ended session rejects all calls except getState and end', async () => {
      const { manager, events } = build()
      const session = manager.session()
      const ending = session.end()
      expect(session.end()).to.equal(ending)
      await ending
      expectCode('TELEMETRY_SESSION_ENDED', () => session.actor('user'))
      expectCode('TELEMETRY_SESSION_ENDED', () => session.scope('org', 'o'))
      expectCode('TELEMETRY_SESSION_ENDED', () => session.attributes({}))
      expectCode('TELEMETRY_SESSION_ENDED', () => session.id('x'))
      expectCode('TELEMETRY_SESSION_ENDED', () => session.emit('x'))
      await expectRejection(
        'TELEMETRY_SESSION_ENDED',
        session.run(() => expect.fail('ran')),
      )
      expect(session.getState().ended).to.equal(true)
      expect(events()).to.have.length(0)
    })

    it('a run of an ended session has the context of the next outer run', async () => {
      const { manager, events } = build()
      const outer = manager.session().id('outer')
      const inner = manager.session().id('inner').actor('user', 'inner')
      await outer.run(() =>
        inner.run(async () => {
          manager.emit('a')
          await inner.end()
          manager.emit('b')
          expect(KitTelemetrySession.getActive()?.sessionId).to.equal('outer')
          await outer.end()
          manager.emit('c')
          expect(KitTelemetrySession.getActive()).to.equal(undefined)
          expect(manager.session().getState()).not.to.have.property('actor')
        }),
      )
      const [a, b, c] = events()
      expect([a?.sessionId, b?.sessionId]).to.deep.equal(['inner', 'outer'])
      expect(b).not.to.have.property('actor')
      expect(c?.sessionId).to.match(/^ses_/)
    })
  })

  describe('refuses wrong arguments', () => {
    const hostile = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('no')
        },
      },
    )
    const table: [string, (session: Wrong) => unknown][] = [
      ['an empty id', (session) => session.id('')],
      ['an id that is an object', (session) => session.id({})],
      ['attributes that are a string', (session) => session.attributes('x')],
      ['no attributes', (session) => session.attributes(undefined)],
      ['an array of attributes', (session) => session.attributes([])],
      ['a date as attributes', (session) => session.attributes(new Date())],
      ['attributes that cannot be read', (session) => session.attributes(hostile)],
      ['an empty actor type', (session) => session.actor('')],
      ['an actor id that is an object', (session) => session.actor('user', {})],
      ['tags that are a string', (session) => session.actor('user', 'u1', 'tags')],
      ['a scope without an id', (session) => session.scope('org')],
      ['scope tags that cannot be read', (session) => session.scope('org', 'o', hostile)],
    ]
    for (const [what, call] of table) {
      it(`a session rejects ${what}`, () => {
        const session = build().manager.session()
        expectCode('TELEMETRY_SESSION_INVALID', () => call(session))
        expect(session.getState().attributes).to.deep.equal({})
      })
    }

    it('run rejects an argument that is not a function', async () => {
      await expectRejection(
        'TELEMETRY_SESSION_INVALID',
        build()
          .manager.session()
          .run(undefined as Wrong),
      )
    })
  })

  describe('run', () => {
    it('run resolves to the result or rejects with the error of its function, and does not end the session', async () => {
      const session = build().manager.session()
      expect(await session.run(() => 5)).to.equal(5)
      expect(await session.run(async () => 'x')).to.equal('x')
      const error = new Error('mine')
      expect(
        await session
          .run(() => {
            throw error
          })
          .catch((caught) => caught),
      ).to.equal(error)
      expect(await session.run(() => Promise.reject(error)).catch((caught) => caught)).to.equal(error)
      expect(session.getState().ended).to.equal(false)
    })

    it('the context of a run survives await, timers, and event emitters', async () => {
      const { manager, events } = build()
      const emitter = new EventEmitter()
      await manager
        .session()
        .id('s')
        .attributes({ a: 1 })
        .run(async () => {
          emitter.once('later', () => manager.emit('emitter'))
          manager.emit('sync')
          await null
          manager.emit('await')
          await new Promise<void>((resolve) =>
            setTimeout(() => {
              manager.emit('timer')
              emitter.emit('later')
              resolve()
            }, 1),
          )
        })
      manager.emit('outside')
      expect(events().map(({ name, sessionId }) => [name, sessionId === 's'])).to.deep.equal([
        ['sync', true],
        ['await', true],
        ['timer', true],
        ['emitter', true],
        ['outside', false],
      ])
      expect(events()[2]?.attributes).to.deep.equal({ a: 1 })
    })

    it('events in a run have later changes of its session', async () => {
      const { manager, events } = build()
      const session = manager.session()
      await session.run(() => {
        manager.emit('a')
        session.actor('user', 'u1').id('changed').attributes({ a: 1 })
        manager.emit('b')
      })
      expect(events()[0]).not.to.have.property('actor')
      expect(events()[1]).to.deep.include({
        sessionId: 'changed',
        actor: { type: 'user', id: 'u1' },
        attributes: { a: 1 },
      })
    })

    it('a run does not affect the events of other managers', async () => {
      const one = build()
      const two = build()
      await one.manager
        .session()
        .id('one')
        .actor('user', 'u')
        .run(() => {
          two.manager.emit('x')
          expect(two.manager.session().getState()).not.to.have.property('actor')
          return two.manager
            .session()
            .id('two')
            .run(() => {
              one.manager.emit('x')
              expect(KitTelemetrySession.getActive()?.sessionId).to.equal('two')
            })
        })
      expect(two.events()[0]?.sessionId).to.match(/^ses_/)
      expect(two.events()[0]).not.to.have.property('actor')
      expect(one.events()[0]?.sessionId).to.equal('one')
    })

    it('a session that is created in a run inherits everything except the id', async () => {
      const { manager, events } = build()
      const outer = manager.session().actor('user', 'u1').scope('org', 'o1').attributes({ a: 1, b: 1 })
      const inner = await outer.run(() => manager.session())
      outer.actor('user', 'u2').attributes({ a: 9 })
      inner.attributes({ b: 2 }).emit('x')
      expect(events()[0]).to.deep.include({
        actor: { type: 'user', id: 'u1' },
        scope: { type: 'org', id: 'o1' },
        attributes: { a: 1, b: 2 },
      })
      expect(inner.getState().actor).to.deep.equal({ type: 'user', id: 'u1' })
      expect(inner.getState().sessionId).not.to.equal(outer.getState().sessionId)
    })

    it('a run inherits the values of the run around it, and its session overrides them', async () => {
      const { manager, events } = build()
      const outer = manager.session().actor('user', 'u1').scope('org', 'o1').attributes({ a: 1, b: 1 })
      const inner = manager.session().actor('bot').attributes({ b: 2 })
      await outer.run(() =>
        inner.run(() => {
          manager.emit('in')
          inner.emit('in')
          expect(KitTelemetrySession.getActive()).to.deep.include({
            actor: { type: 'bot' },
            attributes: { a: 1, b: 2 },
          })
        }),
      )
      inner.emit('out')
      for (const event of events().slice(0, 2))
        expect(event).to.deep.include({
          actor: { type: 'bot' },
          scope: { type: 'org', id: 'o1' },
          attributes: { a: 1, b: 2 },
        })
      expect(events()[2]).not.to.have.property('scope')
      expect(events()[2]?.attributes).to.deep.equal({ b: 2 })
    })

    it('a thousand concurrent runs have separate contexts', async () => {
      const { manager, events } = build()
      const waits = [
        () => Promise.resolve(),
        () => new Promise((resolve) => setImmediate(resolve)),
        () => new Promise((resolve) => process.nextTick(resolve)),
        () => new Promise((resolve) => setTimeout(resolve, Math.random() * 5)),
        () => {
          const emitter = new EventEmitter()
          setImmediate(() => emitter.emit('go'))
          return once(emitter, 'go')
        },
      ]
      const runs = Array.from({ length: 1000 }, (_, who) =>
        manager
          .session()
          .actor('user', `u${who}`)
          .run(async () => {
            for (let step = 0; step < 5; step++) {
              await waits[Math.floor(Math.random() * waits.length)]?.()
              manager.emit(`of.u${who}`)
              await manager.session().run(async () => manager.emit(`of.u${who}`))
            }
          }),
      )
      await Promise.all(runs)
      expect(events()).to.have.length(10_000)
      const mixed = events().filter(({ name, actor }) => name !== `of.${actor?.id}`)
      expect(mixed).to.deep.equal([])
    })

    it('concurrent runs of one session in different outer runs have separate contexts', async () => {
      const { manager, events } = build()
      const shared = manager.session()
      const gate = deferred()
      const runs = ['a', 'b'].map((who) =>
        manager
          .session()
          .actor('user', who)
          .run(() =>
            shared.run(async () => {
              await gate.promise
              manager.emit(who)
              shared.emit(who)
            }),
          ),
      )
      gate.resolve()
      await Promise.all(runs)
      expect(events()).to.have.length(4)
      for (const { name, actor } of events()) expect(actor?.id).to.equal(name)
    })

    for (const order of ['before', 'after'] as const) {
      it(`runs do not fill the memory when each run starts the next ${order} it ends`, async () => {
        const { manager } = build()
        const depths: number[] = []
        const step = async (n: number, previous: KitTelemetrySession): Promise<void> => {
          if (n === 50) return
          const next = manager.session()
          if (order === 'after') await previous.end()
          await next.run(async () => {
            if (order === 'before') await previous.end()
            depths.push(ambientRuns().length)
            await settle()
            await step(n + 1, next)
          })
        }
        await manager.session().run(() => step(0, manager.session()))
        expect(Math.max(...depths)).to.be.at.most(3)
      })
    }
  })

  it('the number of nested runs whose sessions never end is bounded for each manager', async () => {
    const { manager } = build()
    const other = build()
    const step = async (left: number): Promise<void> => {
      if (left > 0) return manager.session().run(() => step(left - 1))
      expect(ambientRuns().length).to.equal(33)
      other.manager.emit('still.inside')
    }
    await other.manager
      .session()
      .id('outer')
      .run(() => step(100))
    expect(other.events().map(({ sessionId }) => sessionId)).to.deep.equal(['outer'])
  })

  it('getActive returns a session only in its run', async () => {
    const { manager } = build()
    expect(KitTelemetrySession.getActive()).to.equal(undefined)
    await manager
      .session()
      .id('s')
      .run(() => {
        const state = KitTelemetrySession.getActive() as Wrong
        expect(state.sessionId).to.equal('s')
        state.attributes.a = 1
        expect(KitTelemetrySession.getActive()?.attributes).to.deep.equal({})
      })
    expect(KitTelemetrySession.getActive()).to.equal(undefined)
  })

  describe('end', () => {
    it('end waits for the events of the session and of its runs, and for no others', async () => {
      const { builder } = recording()
      const waiting: Deferred[] = []
      const slow = {
        type: 'slow',
        handle: () => {
          const one = deferred()
          waiting.push(one)
          return one.promise
        },
      }
      const manager = builder.addTransport(slow).build()
      const session = manager.session()
      session.emit('own')
      await session.run(() => manager.emit('ambient'))
      manager.emit('foreign')
      let ended = false
      const ending = session.end().then(() => {
        ended = true
      })
      waiting[0]?.resolve()
      await settle()
      expect(ended).to.equal(false)
      waiting[1]?.reject(new Error('failed for good'))
      await ending
      expect(manager.stats().transports[1]).to.deep.include({
        accepted: 3,
        delivered: 1,
        failed: 1,
        pending: 1,
      })
    })

    it('end waits for events that wait for init', async () => {
      const init = deferred()
      const { builder } = recording()
      const manager = builder
        .addTransport({ type: 'late', init: () => init.promise, handle: () => {} })
        .build()
      const session = manager.session()
      session.emit('x')
      let ended = false
      const ending = session.end().then(() => {
        ended = true
      })
      await settle()
      expect(ended).to.equal(false)
      init.resolve()
      await ending
      expect(manager.stats().transports[1]).to.deep.include({ delivered: 1 })
    })
  })
})
