import { expect } from 'chai'
import { Browser } from '../support/authorization/browser.ts'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { type TestUpstream, UPSTREAMS } from '../support/authorization/upstreams.ts'
import { skipIf } from '../support/skip.ts'
import { findInspector, Inspector, type InspectorProgram } from './inspector.ts'

describe('the Inspector behind the authorization facade', function () {
  this.timeout(120_000)
  let program: InspectorProgram
  let inspector: Inspector
  let facade: TestFacade
  let upstream: TestUpstream
  before(async function () {
    const found = await findInspector()
    if (typeof found === 'string') return skipIf(this, found)
    program = found
  })
  afterEach(async () => {
    await inspector?.close()
    await facade.close()
    await upstream.close()
  })

  for (const { name, sub, create } of UPSTREAMS)
    for (const era of ['legacy', 'modern'])
      it(`the Inspector registers, its user signs in at ${name} and consents, and it calls a tool (${era})`, async () => {
        upstream = create()
        facade = await startFacade({}, upstream.settings)
        inspector = await Inspector.create(program, async (url, callbackUrl) => {
          const browser = new Browser()
          const page = await browser.open(url.href)
          const isDone = (target: string): boolean => target.startsWith(callbackUrl)
          return new URL((await browser.submit(page, 'allow', isDone)).url)
        })
        const call = ['--protocol-era', era, '--method', 'tools/call', '--tool-name', 'who']
        const { code, answer, visited } = await inspector.askInTerminal(facade.resource, ...call)
        expect(code, JSON.stringify(answer)).to.equal(0)
        expect(JSON.parse(answer.result.content[0].text)).to.include({ id: sub })
        expect(visited.map(({ origin, pathname }) => origin + pathname)).to.deep.equal([
          `${facade.issuer}/authorize`,
        ])
      })
})
