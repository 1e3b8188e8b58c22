package signature

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// skew is how far a signer's clock may be ahead of ours.
const skew = 10 * time.Minute

// byOpenPGP verifies an armored OpenPGP signature.
func (k Keys) byOpenPGP(s signed, now time.Time) (string, *refusal) {
	block, err := armor.Decode(strings.NewReader(s.signature))
	if err != nil || block.Type != openpgp.SignatureType {
		return "", unreadable
	}
	var packets bytes.Buffer
	if _, err := packets.ReadFrom(block.Body); err != nil {
		return "", unreadable
	}
	made, refused := onlySignature(packets.Bytes())
	if refused != nil {
		return "", refused
	}
	key := fmt.Sprintf("OpenPGP key %016X", *made.IssuerKeyId)
	var worst *refusal
	for _, ring := range k.rings {
		sig, entity, err := openpgp.VerifyDetachedSignature(ring.entities, bytes.NewReader(s.payload), bytes.NewReader(packets.Bytes()),
			at(now, made))
		switch {
		case entity == nil && errors.Is(err, pgperrors.ErrUnknownIssuer):
			worst = closer(worst, k.foreign(key))
		case entity == nil:
			worst = closer(worst, altered(key))
		case weakness(sig, ring) != "":
			worst = closer(worst, &refusal{
				weight: notTrusted, problem: fmt.Sprintf("has a signature of %s of %s by %s", key, ring.entry, weakness(sig, ring)),
				remedy: "sign it again with a newer key and SHA-256",
			})
		case err == nil && sig.SigType == packet.SigTypeBinary:
			return fmt.Sprintf("%s (OpenPGP %016X)", ring.entry, *made.IssuerKeyId), nil
		default:
			worst = closer(worst, untrusted(ring, entity, sig, err, now))
		}
	}
	if worst == nil {
		worst = k.foreign(key)
	}
	return "", worst
}

var unreadable = &refusal{weight: otherKey, problem: "has a signature that cannot be read", remedy: "sign it again and push it"}

// onlySignature returns the only signature packet. Of two signatures, one could name the signer and the other be
// verified.
func onlySignature(packets []byte) (*packet.Signature, *refusal) {
	r := packet.NewReader(bytes.NewReader(packets))
	first, err := r.NextWithUnsupported()
	if err != nil {
		return nil, unreadable
	}
	if _, is := first.(*packet.UnsupportedPacket); is {
		return nil, &refusal{
			weight: otherKey, problem: "has a signature by an algorithm that is not accepted, such as MD5",
			remedy: "sign it again with a newer key and SHA-256",
		}
	}
	sig, is := first.(*packet.Signature)
	if !is || sig.IssuerKeyId == nil {
		return nil, unreadable
	}
	if _, err := r.NextWithUnsupported(); !errors.Is(err, io.EOF) {
		return nil, &refusal{weight: otherKey, problem: "has more than one signature", remedy: "sign it with one key and push it again"}
	}
	return sig, nil
}

// hashes are the accepted hash algorithms.
var hashes = []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512}

// weakness returns the weak algorithm that a signature uses; empty if it uses none. Signatures of other clients may.
func weakness(sig *packet.Signature, r ring) string {
	if !slices.Contains(hashes, sig.Hash) {
		return "the weak hash " + sig.Hash.String()
	}
	if sig.PubKeyAlgo == packet.PubKeyAlgoDSA {
		return "the weak algorithm DSA"
	}
	for _, key := range r.entities.KeysById(*sig.IssuerKeyId) {
		if public, is := key.PublicKey.PublicKey.(*rsa.PublicKey); is && public.N.BitLen() < minRSA {
			return fmt.Sprintf("an RSA key of %d bits, and %d are the least", public.N.BitLen(), minRSA)
		}
	}
	return ""
}

// at returns the time at which keys must be valid: ours, or the signature's if that clock is slightly ahead. The
// signature's time by itself proves nothing, because the holder of a stolen key can write any time into it.
func at(now time.Time, sig *packet.Signature) *packet.Config {
	when := now
	if sig.CreationTime.After(now) && sig.CreationTime.Before(now.Add(skew)) {
		when = sig.CreationTime
	}
	return &packet.Config{Time: func() time.Time { return when }}
}

// untrusted returns why a matching signature is not accepted.
func untrusted(r ring, entity *openpgp.Entity, sig *packet.Signature, err error, now time.Time) *refusal {
	key := fmt.Sprintf("OpenPGP key %016X of %s", *sig.IssuerKeyId, r.entry)
	problem, remedy := fmt.Sprintf("is signed with %s, which cannot be trusted", key), "sign it with another key"
	switch {
	case errors.Is(err, pgperrors.ErrKeyExpired):
		problem, remedy = fmt.Sprintf("is signed with %s, which expired%s", key,
			onDay(expiry(entity, *sig.IssuerKeyId, now))), "extend the key and put the new public key into the secret, or sign it with another key"
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		problem = fmt.Sprintf("is signed with %s, which was revoked", key)
	case errors.Is(err, pgperrors.ErrSignatureExpired) && sig.CreationTime.After(now):
		problem, remedy = fmt.Sprintf("is signed with %s at a time that has not come yet", key), "correct the clock of the machine that signed it"
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		problem = fmt.Sprintf("has a signature of %s that has expired", key)
	case err == nil:
		problem = fmt.Sprintf("has a signature of %s that is not one of a document", key)
	}
	return &refusal{weight: notTrusted, problem: problem, remedy: remedy}
}

// expiry returns when a key or its primary key expired.
func expiry(e *openpgp.Entity, id uint64, now time.Time) time.Time {
	self, _ := e.PrimarySelfSignature()
	if end, ok := lasts(e.PrimaryKey, self); ok && !end.After(now) {
		return end
	}
	for _, sub := range e.Subkeys {
		if end, ok := lasts(sub.PublicKey, sub.Sig); ok && sub.PublicKey.KeyId == id {
			return end
		}
	}
	return time.Time{}
}

func lasts(key *packet.PublicKey, self *packet.Signature) (time.Time, bool) {
	if self == nil || self.KeyLifetimeSecs == nil || *self.KeyLifetimeSecs == 0 {
		return time.Time{}, false
	}
	return key.CreationTime.Add(time.Duration(*self.KeyLifetimeSecs) * time.Second), true
}

func onDay(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " on " + t.UTC().Format(time.DateOnly)
}
