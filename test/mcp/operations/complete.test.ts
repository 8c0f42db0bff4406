import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter } from '../../../src/index.ts'
import { web } from '../../support/mcp/entry-points.ts'
import { modern } from '../../support/mcp/wire.ts'

describe('completion/complete', () => {
  it('completes a variable of the longest template, of 8,192 characters', async () => {
    const uriTemplate = `notes://{id}/${'x'.repeat(8_192 - 13)}` as const
    const router = KitMcpRouter.create().resourceTemplate(
      'long',
      { uriTemplate, complete: { id: () => ['one'] } } as never,
      () => 'x',
    )
    const { server } = createMcpAdapter({ router })
    const complete = async (uri: string) =>
      (
        await web(server).send(
          modern('completion/complete', {
            ref: { type: 'ref/resource', uri },
            argument: { name: 'id', value: '' },
          }),
        )
      ).message
    expect((await complete(uriTemplate)).result.completion.values).to.deep.equal(['one'])
    expect((await complete(`${uriTemplate}x`)).error).to.have.property('code', -32_602)
  })
})
