//! Parts of messages that are neither text nor calls.

/// The types of parts for images, files, sounds and videos.
pub const MEDIA: [&str; 11] = [
    "image",
    "image_url",
    "input_image",
    "file",
    "input_file",
    "document",
    "audio",
    "input_audio",
    "video",
    "input_video",
    "container_upload",
];
