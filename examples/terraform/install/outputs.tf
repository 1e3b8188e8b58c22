output "queue_name" {
  description = "For values.settings.interruptionQueue in plumbline.yaml."
  value       = module.karpenter.queue_name
}

output "node_iam_role_name" {
  description = "For spec.role of the EC2NodeClasses."
  value       = module.karpenter.node_iam_role_name
}
