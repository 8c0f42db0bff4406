import { expect } from 'chai'
import { createRecipesServer } from '../../examples/prompts-and-resources.ts'
import { CLIENT_KINDS, type Connected, type ServerNotification } from '../support/mcp/clients.ts'
import { oauth } from '../support/mcp/notes.ts'
import { type Listening, listen, MODERN, signalled } from '../support/mcp/wire.ts'

describe('the example of prompts and resources', () => {
  for (const { name, revision, connect } of CLIENT_KINDS) {
    describe(`for a ${name}`, () => {
      let served: Listening
      let connected: Connected
      let onNotification: (notification: ServerNotification) => void = () => undefined
      before(async () => {
        served = await listen(createRecipesServer(oauth()))
        connected = await connect(served.origin, {
          token: 'writer',
          onNotification: (notification) => onNotification(notification),
        })
      })
      after(async () => {
        await connected.close()
        await served.close()
      })

      it(`a ${name} completes the argument of a prompt and gets the prompt`, async () => {
        const ref = { type: 'ref/prompt', name: 'cook' }
        const completed = await connected.client.complete({ ref, argument: { name: 'recipe', value: 'bre' } })
        expect(completed.completion.values).to.deep.equal(['bread'])
        const { messages } = await connected.client.getPrompt({
          name: 'cook',
          arguments: { recipe: 'bread' },
        })
        expect(messages[0].content.text).to.equal(
          'Plan a meal for 2 around this recipe:\n\nFlour, water, salt, time.',
        )
        const missing = connected.client.getPrompt({ name: 'cook', arguments: { recipe: 'cake' } })
        const error = await missing.catch((cause: Error) => cause)
        expect(error.message).to.contain('The recipe cake does not exist')
      })

      it(`a ${name} lists and reads recipes`, async () => {
        const { resources } = await connected.client.listResources()
        expect(resources.map(({ uri }: { uri: string }) => uri)).to.deep.equal([
          'recipes://index',
          'recipes://all/bread',
          'recipes://all/broth',
        ])
        const index = await connected.client.readResource({ uri: 'recipes://index' })
        expect(index.contents[0].text).to.equal('["bread","broth"]')
        const broth = await connected.client.readResource({ uri: 'recipes://all/broth' })
        expect(broth.contents[0]).to.deep.include({
          mimeType: 'text/markdown',
          text: 'Bones, water, more time.',
        })
      })

      it(`a ${name} is notified of a saved recipe`, async () => {
        const { client } = connected
        const updated = signalled<ServerNotification>()
        onNotification = (notification) => {
          if (notification.method === 'notifications/resources/updated') updated.resolve(notification)
        }
        const uri = 'recipes://all/bread'
        if (revision === MODERN) await client.listen({ resourceSubscriptions: [uri] })
        else {
          await connected.streaming
          await client.subscribeResource({ uri })
        }
        await client.callTool({ name: 'save_recipe', arguments: { recipe: 'bread', text: 'Buy it.' } })
        expect((await updated.promise).params.uri).to.equal(uri)
        expect((await client.readResource({ uri })).contents[0].text).to.equal('Buy it.')
      })
    })
  }
})
