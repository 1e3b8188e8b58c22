#!/bin/sh
# Writes real/* with the real programs: sops of tests/sandbox/bin/sops, and gpg (2.2.40 wrote the files that are here).
set -eu
cd "$(dirname "$0")"
GNUPGHOME=$(mktemp -d) && export GNUPGHOME
trap 'gpgconf --kill all; rm -rf "$GNUPGHOME"' EXIT
sops=$(cd ../../../tests/sandbox/bin/sops && GOWORK=off go tool -n sops)
other=age1a7r67rednqvxelmqtu89lvd4zr0nhdmmfcyc4cn9gp7ps967g3tsnwxpdk # the identity is lost
age=$(sed -n 's/# public key: //p' age.agekey)
gpg --batch --import gpg.asc
pgp=$(gpg --batch --list-secret-keys --with-colons sops@plumbline.test | awk -F: '/^fpr/ {print $10; exit}')
write() { to=real/$1; shift; "$sops" --encrypt "$@" "plain.${to##*.}" >"$to"; }
write age.yaml --age "$age"
write pgp.yaml --pgp "$pgp"
write several.yaml --age "$other,$age" --pgp "$pgp"
write encrypted-regex.yaml --age "$age" --encrypted-regex '^(data|text)$'
write unencrypted-regex.yaml --age "$age" --unencrypted-regex '^(data|text)$'
write encrypted-suffix.yaml --age "$age" --encrypted-suffix _open
write unencrypted-suffix.yaml --age "$age" --unencrypted-suffix _open
write mac-only-encrypted.yaml --age "$age" --encrypted-regex '^(data|list)$' --mac-only-encrypted
write age.json --age "$age"
write unencrypted-suffix.json --age "$age" --unencrypted-suffix _open
