"""The certificate of the webhook: issued here, later rotated without a lost request."""
