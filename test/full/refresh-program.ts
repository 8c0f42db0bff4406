/**
 * A client whose credentials are in a file that it shares with other processes. For each line on stdin it connects, calls a tool,
 * and prints the number of attempts, or `0` if the server has ended its sign-in.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { SIGN_IN_CLIENTS, Wallet } from './sign-in-clients.ts'

const MAX_ATTEMPTS = 20

const [name, url = '', file = ''] = process.argv.slice(2)
const kind = SIGN_IN_CLIENTS.find((one) => one.name === name)
if (kind === undefined) throw new Error(`no client ${name}`)
let hasLostSignIn = false

const read = () => JSON.parse(readFileSync(file, 'utf8'))

/** A wallet in the file. It never signs in. */
class SharedWallet extends Wallet {
  override clientInformation() {
    return read().client
  }
  override tokens() {
    return read().tokens
  }
  override saveTokens(tokens: object) {
    const own = `${file}.${process.pid}`
    writeFileSync(own, JSON.stringify({ ...read(), tokens }))
    renameSync(own, file)
  }
  override redirectToAuthorization() {}
  invalidateCredentials() {
    hasLostSignIn = true
  }
}

for await (const _line of createInterface({ input: process.stdin })) {
  let attempts = 0
  for (let isDone = false; !isDone && !hasLostSignIn; attempts++) {
    if (attempts === MAX_ATTEMPTS) throw new Error('no connection')
    const { client, connect } = kind.open(url, { fetch, provider: new SharedWallet(fetch) })
    try {
      await connect()
      await client.callTool({ name: 'who', arguments: {} })
      isDone = true
    } catch (error) {
      if (process.env.DEBUG !== undefined) console.error(error)
      await setTimeout(10)
    }
    await client.close().catch(() => undefined)
  }
  console.log(hasLostSignIn ? 0 : attempts)
}
