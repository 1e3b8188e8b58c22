// Package sops decrypts YAML and JSON files that were encrypted by SOPS (https://getsops.io), with keys of age, OpenPGP and
// AWS KMS.
//
// Its input is the text of a file and the keys; its output is the values, and which of them were not encrypted. It verifies the
// message authentication code of the file, so that no value was added, moved or changed since. It reads no file, environment
// or agent, runs no program, and makes no request: the caller passes a function that asks KMS. No error contains a value.
//
// docs/decisions/0131 has the reason why it does not use the library of SOPS.
package sops
