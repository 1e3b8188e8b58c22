package awssim

import (
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) keyActions() map[string]action {
	return map[string]action{"DescribeKey": document(a.describeKey), "GetKeyPolicy": document(a.getKeyPolicy)}
}

type keyInput struct {
	KeyID string `json:"KeyId"`
}

type keyMetadata struct {
	KeyID string `json:"KeyId"`

	Arn, KeyManager, KeyState string
}

type keyOutput struct{ KeyMetadata keyMetadata }

type keyPolicyOutput struct{ PolicyName, Policy string }

// findKey returns the ID and the policy of a key by its ID or ARN.
func (a *account) findKey(name string) (id, policy string, err error) {
	id = name[strings.LastIndex(name, "/")+1:]
	policy, ok := a.keys[id]
	if !ok {
		return "", "", wire.Errorf("NotFoundException", "Key '%s' does not exist", name)
	}
	return id, policy, nil
}

func (a *account) keyARN(name string) string {
	return a.arn("kms", a.options.Region, "key/"+name[strings.LastIndex(name, "/")+1:])
}

func (a *account) describeKey(_ *request, in *keyInput) (*keyOutput, error) {
	id, _, err := a.findKey(in.KeyID)
	if err != nil {
		return nil, err
	}
	return &keyOutput{keyMetadata{KeyID: id, Arn: a.keyARN(id), KeyManager: "CUSTOMER", KeyState: "Enabled"}}, nil
}

func (a *account) getKeyPolicy(_ *request, in *keyInput) (*keyPolicyOutput, error) {
	_, policy, err := a.findKey(in.KeyID)
	if err != nil {
		return nil, err
	}
	return &keyPolicyOutput{"default", policy}, nil
}

// SetQueueKey encrypts a queue with a new KMS key that has a policy; without one, SQS encrypts it.
func (s *Simulator) SetQueueKey(queueName, policy string) error {
	err := queueNotFound()
	s.locked(func(a *account) {
		q, ok := a.queues[queueName]
		if !ok {
			return
		}
		err = nil
		delete(a.keys, q.key)
		if q.key = ""; policy != "" {
			q.key = fixedID("", queueName)
			a.keys[q.key] = policy
		}
	})
	return err
}
