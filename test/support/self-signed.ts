import { generateKeyPairSync, sign } from 'node:crypto'

/** Creates a self-signed certificate for 127.0.0.1 and further host names, and its key, both as PEM. */
export function selfSigned(...hosts: readonly string[]): { readonly key: string; readonly cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const ecdsaWithSha256 = sequence(oid([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]))
  const commonName = sequence(oid([0x55, 0x04, 0x03]), der(0x0c, Buffer.from('loopback')))
  const name = sequence(der(0x31, commonName))
  const utcTime = (date: Date) =>
    der(0x17, Buffer.from(`${date.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))
  const day = 86_400_000
  const validity = sequence(utcTime(new Date(Date.now() - day)), utcTime(new Date(Date.now() + day)))
  const addresses = sequence(
    der(0x87, Buffer.from([127, 0, 0, 1])),
    ...hosts.map((host) => der(0x82, Buffer.from(host))),
  )
  const extensions = sequence(sequence(oid([0x55, 0x1d, 0x11]), der(0x04, addresses)))
  const certificate = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', certificate, privateKey)])
  const signed = sequence(certificate, ecdsaWithSha256, der(0x03, signature))
  return {
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    cert: `-----BEGIN CERTIFICATE-----\n${signed.toString('base64')}\n-----END CERTIFICATE-----\n`,
  }
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function oid(bytes: number[]): Buffer {
  return der(0x06, Buffer.from(bytes))
}
