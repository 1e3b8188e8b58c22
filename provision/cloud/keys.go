package cloud

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// Key is a KMS key.
type Key struct {
	ARN string
	// OfAWS reports whether AWS manages it, so that its policy cannot be changed.
	OfAWS bool
	// State in KMS's terms: Enabled, Disabled, PendingDeletion, …
	State string
	// Policy is the JSON of its policy.
	Policy string
}

// Key returns a key by its ID, ARN or alias. It takes two requests. A key that does not exist is a *NotFoundError.
func (c *Client) Key(ctx context.Context, id string) (Key, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.kms.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(id)})
	var missing *kmstypes.NotFoundException
	switch {
	case errors.As(err, &missing):
		return Key{}, &NotFoundError{What: "KMS key " + id, Where: c.regionAndAccount(ctx), Check: "what names it", Err: err}
	case err != nil:
		return Key{}, c.named("kms:DescribeKey", err)
	case out.KeyMetadata == nil:
		return Key{}, &NotFoundError{What: "KMS key " + id, Where: c.regionAndAccount(ctx), Check: "what names it"}
	}
	key := Key{
		ARN: aws.ToString(out.KeyMetadata.Arn), OfAWS: out.KeyMetadata.KeyManager == kmstypes.KeyManagerTypeAws,
		State: string(out.KeyMetadata.KeyState),
	}
	policy, err := c.kms.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: out.KeyMetadata.Arn, PolicyName: aws.String("default")})
	if err != nil {
		return key, c.named("kms:GetKeyPolicy", err)
	}
	key.Policy = aws.ToString(policy.Policy)
	return key, nil
}

// Decrypt decrypts with a symmetric KMS key of the client's region, by its ARN. An encryption context that does not match is
// an error.
func (c *Client) Decrypt(ctx context.Context, arn string, ciphertext []byte, encryptionContext map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.kms.Decrypt(ctx, &kms.DecryptInput{KeyId: aws.String(arn), CiphertextBlob: ciphertext, EncryptionContext: encryptionContext})
	if err != nil {
		return nil, c.named("kms:Decrypt", err)
	}
	return out.Plaintext, nil
}
