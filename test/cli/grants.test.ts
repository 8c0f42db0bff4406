import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { redisStore } from '../../src/authorization/index.ts'
import { createKeys } from '../../src/authorization/keys.ts'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { itRejects, runCommand, runProgram } from '../support/cli/run-command.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { freePort } from '../support/free-port.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

const SUB = 'oidc|ada'
const KEYS = createKeys()
const PASSWORD = 'hunter2-of-redis'

describe('mcp-gatekit grants', () => {
  const REDIS_URL = 'redis://127.0.0.1:1'

  itRejects(
    ['grants'],
    [
      [[], 'expected grants list <sub> or grants revoke <sub>'],
      [['lst', SUB], 'expected grants list <sub> or grants revoke <sub>'],
      [['list'], 'the user is missing'],
      [['revoke', ''], 'the user is missing'],
      [['list', SUB, 'id'], 'unexpected argument'],
      [['revoke', SUB, ''], 'the id of the grant is empty'],
      [['revoke', '--client', ''], '--client must be the id of a client'],
      [['revoke', SUB, '--client', 'desk'], '--client requires revoke without a user'],
      [['list', '--client', 'desk'], '--client requires revoke without a user'],
    ],
    { REDIS_URL },
  )

  for (const url of ['', `localhost:6379/${PASSWORD}`])
    itRejects(['grants'], [[['list', SUB], 'REDIS_URL must be a URL such as redis:']], { REDIS_URL: url })

  describe('with a facade whose store is a real Redis', () => {
    let server: RedisServer
    let redis: Redis
    let folder: string
    let keys: string
    let env: Record<string, string>
    let test: TestFacade

    before(async function () {
      skipIf(this, redisMissing())
      server = await startRedis({ isDurable: false })
      redis = new Redis(server.port, '127.0.0.1')
      folder = await realpath(await mkdtemp(join(tmpdir(), 'grants-')))
      keys = join(folder, 'keys.json')
      await writeFile(keys, JSON.stringify(KEYS))
      env = { REDIS_URL: `redis://127.0.0.1:${server.port}`, AUTHORIZATION_KEYS_FILE: keys }
    })
    after(async () => {
      redis?.disconnect()
      await server?.stop()
      if (folder !== undefined) await rm(folder, { recursive: true, force: true })
    })
    beforeEach(async () => {
      await redis.flushall()
      test = await startFacade({ keys: KEYS, store: redisStore(redis), grants: { accessSeconds: 1 } })
    })

    const grants = (...argv: string[]) => runCommand(['grants', ...argv], { env })
    const ids = async () => (await test.facade.grants.list(SUB)).map(({ id }) => id)

    it('lists the grants of a user with what a client calls itself on one line', async () => {
      const client = await test.register({ client_name: 'Desk\u001b[2J\nevil' })
      await test.connect(client)
      const { stdout, stderr, exitCode } = await grants('list', SUB)
      const [id = ''] = await ids()
      expect([exitCode, stderr]).to.deep.equal([0, ''])
      expect(stdout).to.match(/^oidc\|ada has 1 grant\n\n/)
      expect(stdout).to.contain(`\n${id}\n  client: Desk[2J evil at 127.0.0.1:53682, ${client.client_id}\n`)
      expect(stdout).to.match(/\n {2}scopes: mcp:read\n {2}signed in 20\S+Z, last used 20\S+Z\n$/)
      expect((await grants('list', 'oidc|bob')).stdout).to.equal('oidc|bob has 0 grants\n')
    })

    it('revoke with an id ends this grant at a running facade, and no other one', async () => {
      const [one, other] = [await test.connect(), await test.connect()]
      const listed = await test.facade.grants.list(SUB)
      const { id = '' } = listed.find(({ client }) => client.id === one.client.client_id) ?? {}
      expect((await test.call(one.body.access_token)).status).to.equal(200)
      const said = { exitCode: 0, stdout: 'ended 1 grant\n', stderr: '' }
      expect(await grants('revoke', SUB, id, '--yes')).to.deep.equal(said)
      expect((await test.refresh(one.client, one.body.refresh_token)).body.error).to.equal('invalid_grant')
      await until(async () => (await test.call(one.body.access_token)).status === 401)
      expect((await test.refresh(other.client, other.body.refresh_token)).status).to.equal(200)
      const again = await grants('revoke', SUB, id, '--yes')
      expect(again).to.deep.include({ exitCode: 1, stdout: '' })
      expect(again.stderr).to.contain('the user has no such grant. See mcp-gatekit grants list')
    })

    it('revoke --client ends the grants of this client, and users can sign in again', async () => {
      const one = await test.connect()
      await test.connect(one.client)
      const other = await test.connect()
      const said = await grants('revoke', '--client', one.client.client_id, '--yes')
      expect(said.stdout).to.equal('ended 2 grants\n')
      expect((await test.refresh(one.client, one.body.refresh_token)).status).to.equal(400)
      expect((await test.refresh(other.client, other.body.refresh_token)).status).to.equal(200)
      expect((await test.connect(one.client)).status).to.equal(200)
    })

    it('revoke asks first, and ends all access of a user only after a yes', async () => {
      await test.connect()
      await test.connect()
      const revoke = (answer: string) => runProgram(['grants', 'revoke', SUB], env, answer)
      for (const answer of ['', '\n', 'no\ny\n']) {
        const { exitCode, stdout, stderr } = await revoke(answer)
        expect([exitCode, stdout]).to.deep.equal([1, ''])
        expect(stderr).to.equal(
          'End all access of oidc|ada (2 grants)? [y/N] mcp-gatekit: nothing was ended. Answer y, or pass --yes\n',
        )
      }
      expect(await ids()).to.have.length(2)
      expect(await revoke('y\n')).to.include({ exitCode: 0, stdout: 'ended 2 grants\n' })
      expect(await ids()).to.deep.equal([])
    })

    it('node-redis and a prefix are used if the project has them', async () => {
      await mkdir(join(folder, 'node_modules'))
      const packages = fileURLToPath(new URL('../../../node_modules/', import.meta.url))
      await symlink(join(packages, 'redis'), join(folder, 'node_modules/redis'))
      const shared = { keys: KEYS, store: redisStore(redis, 'mine:') }
      await (await startFacade(shared)).connect()
      const before = process.cwd()
      process.chdir(folder)
      try {
        expect((await grants('list', SUB)).stdout).to.contain('has 0 grants')
        expect((await grants('list', SUB, '--prefix', 'mine:')).stdout).to.contain('has 1 grant\n')
        process.chdir(tmpdir())
        expect((await grants('list', SUB)).stderr).to.contain('neither ioredis nor redis is installed here')
      } finally {
        process.chdir(before)
      }
    })

    it('keys of another facade, a missing file, and an unusable Redis fail with the fix, and end nothing', async () => {
      await test.connect()
      const others = createKeys()
      const wrong = join(folder, 'wrong.json')
      await writeFile(wrong, JSON.stringify(others))
      const { client } = (await test.facade.grants.list(SUB))[0] as { client: { id: string } }
      const secrets = [PASSWORD, ...KEYS.encryption, ...others.encryption, String(others.signing[0]?.d)]
      const unreachable = `redis://:${PASSWORD}@127.0.0.1:${await freePort()}`
      const locked = `redis://:${PASSWORD}@127.0.0.1:${server.port}`
      await redis.config('SET', 'requirepass', 'another')
      try {
        for (const [argv, url, complaint] of [
          [['list', SUB], unreachable, 'cannot connect to the Redis at REDIS_URL (ECONNREFUSED)'],
          [['list', SUB], locked, 'cannot connect to the Redis at REDIS_URL (WRONGPASS)'],
          [['list', SUB, '--keys', 'gone'], '', 'cannot read gone (ENOENT). Name the file with the keys'],
          [['revoke', SUB, '--yes', '--keys', wrong], '', 'do not open the stored grants. Use --keys'],
          [['revoke', '--client', client.id, '--yes', '--keys', wrong], '', 'do not open the stored grants'],
        ] as const) {
          if (url === '') await redis.config('SET', 'requirepass', '')
          const used = { ...env, ...(url !== '' && { REDIS_URL: url }) }
          const { exitCode, stdout, stderr } = await runCommand(['grants', ...argv], { env: used })
          expect([exitCode, stdout]).to.deep.equal([1, ''])
          expect(stderr)
            .to.match(/^mcp-gatekit: [^\n]+\n$/)
            .and.contain(complaint)
          expectNoSecret(stderr, secrets)
        }
      } finally {
        await redis.config('SET', 'requirepass', '')
      }
      expect(await ids()).to.have.length(1)
    })
  })
})
