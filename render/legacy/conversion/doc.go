// Package conversion converts Karpenter's definitions of earlier versions to v1.
//
// Its input is the text of files with v1alpha5 Provisioners, v1alpha1 AWSNodeTemplates, and v1beta1 NodePools and
// EC2NodeClasses. Its outputs are the text with v1 definitions, what became of each field, and what it cannot convert.
// Defaults of the earlier version that v1 does not have are written explicitly.
//
// Text that does not change is copied: comments, blank lines, quotes and order are kept. All other documents of a file
// stay the same, byte for byte. It decides nothing that changes nodes: such a field needs a decision of a person. It does
// no I/O.
//
// Sources of the rules: the conversion of karpenter 1.0.8 (pkg/apis/v1/nodepool_conversion.go) and
// karpenter-provider-aws 1.0.8 (pkg/apis/v1/ec2nodeclass_conversion.go); Karpenter's migration guides to v1beta1 and v1;
// the defaulting of v1alpha5 in karpenter-provider-aws 0.31 (pkg/apis/v1alpha5/provisioner.go).
package conversion
