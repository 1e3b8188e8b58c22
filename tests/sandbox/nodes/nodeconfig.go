package nodes

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	nodeConfigType = "application/node.eks.aws"
	scriptType     = "text/x-shellscript"
)

// nodeConfig is the relevant part of nodeadm's configuration: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
type nodeConfig struct {
	Spec struct {
		Cluster struct {
			APIServerEndpoint string `json:"apiServerEndpoint"`
		} `json:"cluster"`
		Kubelet struct {
			Config struct {
				MaxPods            int            `json:"maxPods"`
				RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// parseArchive merges the parts of a MIME archive in order, as nodeadm does with several NodeConfigs.
func parseArchive(text string) (join, error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return join{}, fmt.Errorf("read user data as a MIME archive: %w", err)
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return join{}, fmt.Errorf("read the content type of user data: %w", err)
	}
	if !strings.HasPrefix(mediaType, "multipart/") {
		return join{}, fmt.Errorf("read user data: it is %s, not multipart", mediaType)
	}
	var all join
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return join{}, fmt.Errorf("read a part of user data: %w", err)
		}
		found, err := parsePart(part)
		if err != nil {
			return join{}, err
		}
		all.merge(found)
	}
}

func parsePart(part *multipart.Part) (join, error) {
	text, err := io.ReadAll(part)
	if err != nil {
		return join{}, fmt.Errorf("read a part of user data: %w", err)
	}
	mediaType, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil {
		return join{}, fmt.Errorf("read the content type of a part of user data: %w", err)
	}
	switch mediaType {
	case nodeConfigType:
		return parseNodeConfig(text)
	case scriptType:
		return parseScript(string(text))
	default:
		return join{}, nil
	}
}

func parseNodeConfig(text []byte) (join, error) {
	var config nodeConfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return join{}, fmt.Errorf("read the NodeConfig in user data: %w", err)
	}
	found, err := parseScript(strings.Join(config.Spec.Kubelet.Flags, " "))
	if err != nil {
		return join{}, err
	}
	found.merge(join{
		Endpoint: config.Spec.Cluster.APIServerEndpoint,
		Taints:   config.Spec.Kubelet.Config.RegisterWithTaints,
		MaxPods:  config.Spec.Kubelet.Config.MaxPods,
	})
	return found, nil
}
